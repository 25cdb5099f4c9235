// SPDX-License-Identifier: Apache-2.0
// softmax(Q K^T scale + mask) V in 16-bit floats on wgmma (compute capability 9.0a): persistent, one warpgroup loads,
// NWG take tiles of 64 queries in turn; scores and their powers stay in registers. Macros: DK, DV columns of keys and
// of values, in slabs of SD and SE; KEYS of a tile; COUNT of all where one tile holds them, else 0; PER tiles of
// queries share the keys (NWG, or more where COUNT is not 0); STAGES of keys and values; BLOCKS that fit into a
// multiprocessor together; MASK 1: f32 is added to the scores; NAN_TO_ZERO 1: a row without any weight gives zeros;
// ACT: what becomes of the result, as a type of tenon::expr. Mma<KEYS>, Mma<KEYS / 2> and KeptMma<DV> stand before this
// text.
#include "pipeline.cuh"

typedef ELEMENT T;
#include "side_params.h"
using tenon::cuda::Side;
#include "attention_wgmma_params.h"
typedef tenon::cuda::AttentionWgmmaParams Params;

constexpr bool ONE = COUNT > 0;
constexpr int ROW_D = SD * 2, ROW_E = SE * 2;  // bytes
constexpr int Q_BYTES = 64 * DK * 2, O_BYTES = 64 * DV * 2, K_BYTES = KEYS * DK * 2, V_BYTES = KEYS * DV * 2;
constexpr int whole(int bytes) { return (bytes + 1023) / 1024 * 1024; }
constexpr int STAGE = whole(K_BYTES) + whole(V_BYTES);
constexpr int AT_Q = STAGES * STAGE, AT_O = AT_Q + 2 * NWG * Q_BYTES, AT_BARRIERS = AT_O + NWG * O_BYTES;
constexpr int THREADS = pipeline_threads(NWG);
// The sums of one product must fit into the registers that a thread begins with.
constexpr int PARTS = NWG == 3 && KEYS > 192 ? 2 : 1;
static_assert(Q_BYTES % 1024 == 0 && O_BYTES % 1024 == 0, "swizzled rows begin at multiples of a kilobyte");

#define INFINITE __int_as_float(0x7f800000)

__device__ __forceinline__ float power(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// Values as the second operand: 16 keys below each other, slabs of SE columns one after the other.
__device__ __forceinline__ u64 values_at(u32 address) {
  const u64 layout = ROW_E == 128 ? 1 : ROW_E == 64 ? 2 : 3;
  return (u64)((address & 0x3ffff) >> 4) | (u64)(KEYS * ROW_E >> 4) << 16 | (u64)(8 * ROW_E >> 4) << 32 | layout << 62;
}
template <int WIDTH, int SLAB>
__device__ __forceinline__ void load_rows(u32 to, const TensorMap* map, u32 bar, int rows, int row, int i1, int i0) {
#pragma unroll
  for (int s = 0; s < WIDTH / SLAB; ++s) load_4d(to + s * rows * SLAB * 2, map, bar, s * SLAB, row, i1, i0);
}

// The tiles of queries of a block, numbered through all of its items.
__device__ __forceinline__ int item_of(int turn) { return (int)(blockIdx.x + turn / PER * gridDim.x); }
__device__ __forceinline__ int first_row(const Params& p, int turn) {
  return (item_of(turn) % p.groups * PER + turn % PER) * 64;
}

// Queries have two places for each warpgroup; keys and values, which all of them read, go round in STAGES.
struct Barriers {
  u32 keys_full, values_full, empty, queries_full, queries_empty;

  static constexpr int SIZE = 24 * STAGES + 32 * NWG;
  __device__ __forceinline__ explicit Barriers(u32 at) {
    keys_full = at, values_full = keys_full + 8 * STAGES, empty = values_full + 8 * STAGES;
    queries_full = empty + 8 * STAGES, queries_empty = queries_full + 16 * NWG;
  }
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(keys_full + 8 * i, 1), barrier_init(values_full + 8 * i, 1);
      barrier_init(empty + 8 * i, 4 * PER);
    }
    for (int i = 0; i < 2 * NWG; ++i) barrier_init(queries_full + 8 * i, 1), barrier_init(queries_empty + 8 * i, 4);
    publish_barriers();
  }
};

// By one thread.
__device__ __forceinline__ void load_tiles(const Params& p, const Breadcrumb& breadcrumb, u32 base,
                                           const Barriers& barriers, int tiles) {
  wait_previous_grid();
  launch_next_grid();
  leave(breadcrumb);
  u32 use = 0;
  for (int first = 0, item; (item = item_of(first)) < p.items; first += PER) {
    const int head = item / p.groups, i1 = head % p.heads, i0 = head / p.heads, kv_head = i1 / p.share;
    const auto load_queries = [&](int turn) {
      const u32 place = turn % NWG * 2 + (turn / NWG & 1), bar = barriers.queries_full + 8 * place;
      barrier_wait(barriers.queries_empty + 8 * place, (turn / NWG >> 1 & 1) ^ 1);
      barrier_expect(bar, Q_BYTES);
      load_rows<DK, SD>(base + AT_Q + place * Q_BYTES, &p.q, bar, 64, first_row(p, turn), i1, i0);
    };
    // Further queries than the first wait for room, which comes when keys are there.
    for (int turn = first; turn < first + (ONE ? 1 : PER); ++turn) load_queries(turn);
    for (int tile = 0; tile < tiles; ++tile, ++use) {
      const u32 slot = use % STAGES, to = base + slot * STAGE, keys_full = barriers.keys_full + 8 * slot,
                values_full = barriers.values_full + 8 * slot;
      barrier_wait(barriers.empty + 8 * slot, (use / STAGES & 1) ^ 1);
      barrier_expect(keys_full, K_BYTES);
      load_rows<DK, SD>(to, &p.k, keys_full, KEYS, tile * KEYS, kv_head, i0);
      barrier_expect(values_full, V_BYTES);
      load_rows<DV, SE>(to + whole(K_BYTES), &p.v, values_full, KEYS, tile * KEYS, kv_head, i0);
    }
    for (int turn = first + 1; ONE && turn < first + PER; ++turn) load_queries(turn);
  }
}

// Scores of a tile of keys, and what they become; a thread has two neighbouring columns of two rows in each 8.
struct Scores {
  float parts[PARTS][KEYS / PARTS / 2];
  __device__ __forceinline__ float& operator[](int i) { return parts[i / (KEYS / PARTS / 2)][i % (KEYS / PARTS / 2)]; }

  __device__ __forceinline__ void multiply(u32 q, u32 k) {
    begin_products();
#pragma unroll
    for (int d = 0; d < DK / 16; ++d) {
      const u32 slab = d * 16 / SD, at = d * 16 % SD * 2;
#pragma unroll
      for (int part = 0; part < PARTS; ++part)
        Mma<KEYS / PARTS>::run(parts[part], operand<ROW_D>(q + slab * 64 * ROW_D + at, 8 * ROW_D),
                               operand<ROW_D>(k + (slab * KEYS + part * (KEYS / PARTS)) * ROW_D + at, 8 * ROW_D), d);
    }
    commit_products();
    wait_products<0>();
  }
  __device__ __forceinline__ void add_mask(const Params& p, const float* const (&lines)[2], int key, int n) {
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float other = lines[e / 2][min(key + j * 8 + (e & 1), n - 1) * p.mask_side.column];
        float& s = (*this)[j * 4 + e];
        // The smallest numbers stay numbers.
        s = fmaf(s, p.scale, other < -2e38f && other > -INFINITE ? -2e38f : other);
      }
  }
  // Columns beyond the last key.
  __device__ __forceinline__ void cut(int key, int n) {
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (j * 8 + 7 >= COUNT && key + j * 8 + (e & 1) >= n) (*this)[j * 4 + e] = -INFINITE;
  }
};

// What a thread keeps of its two rows from tile to tile of keys.
struct Rows {
  float sum[DV / 2], top[2], total[4];

  // Scores become their powers, of which the largest so far is 1; `unit` scales them.
  __device__ __forceinline__ void add(Scores& s, float unit, bool first) {
    float high[2] = {top[0], top[1]}, less[2];
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) high[h] = fmaxf(high[h], fmaxf(s[j * 4 + 2 * h], s[j * 4 + 2 * h + 1]));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      high[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 1));
      high[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 2));
      less[h] = high[h] == -INFINITE ? 0.f : high[h] * unit;
      if (ONE) continue;
      const float factor = power(fmaf(top[h], unit, -less[h]));
      top[h] = high[h], total[2 * h] *= factor, total[2 * h + 1] *= factor;
#pragma unroll
      for (int j = 0; j < DV / 8; ++j)
        if (!first) sum[j * 4 + 2 * h] *= factor, sum[j * 4 + 2 * h + 1] *= factor;
    }
#pragma unroll
    for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) total[e] += s[j * 4 + e] = power(fmaf(s[j * 4 + e], unit, -less[e / 2]));
  }
  // Adds the values at `v`, weighted by the powers, once they are there.
  __device__ __forceinline__ void multiply(Scores& s, u32 v, u32 full, u32 parity, int tile) {
    u32 a[KEYS / 16][4];
#pragma unroll
    for (int i = 0; i < KEYS / 16; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) a[i][e] = pack_halves(s[i * 8 + 2 * e], s[i * 8 + 2 * e + 1]);
    barrier_wait(full, parity);
    begin_products();
#pragma unroll
    for (int i = 0; i < KEYS / 16; ++i) KeptMma<DV>::run(sum, a[i], values_at(v + i * 16 * ROW_E), tile + i);
    commit_products();
    wait_products<0>();
  }
  // The result in shared memory at `to`.
  __device__ __forceinline__ void store(const Params& p, u32 to, int row0) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float all = total[2 * h] + total[2 * h + 1];
      all += __shfl_xor_sync(~0u, all, 1);
      all += __shfl_xor_sync(~0u, all, 2);
      const bool nothing = NAN_TO_ZERO && !(all > 0.f);
      const float factor = 1.f / all;
      const int row = row0 + 8 * h;
      const auto result = [&](float x) { return activate<ACT, true>(nothing ? 0.f : x * factor, p.alpha, p.beta); };
#pragma unroll
      for (int j = 0; j < DV / 8; ++j) {
        const u32 pair = pack_halves(result(sum[j * 4 + 2 * h]), result(sum[j * 4 + 2 * h + 1]));
        const u32 at = to + j * 8 / SE * 64 * ROW_E + row * ROW_E + ((j * 8 % SE / 8 ^ swizzle<ROW_E>(row)) << 4);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + (threadIdx.x & 3) * 4), "r"(pair) : "memory");
      }
    }
  }
};

// The rows of the mask that a thread adds.
__device__ __forceinline__ void find_mask(const float* (&lines)[2], const Params& p, int i0, int i1, int row) {
#pragma unroll
  for (int h = 0; h < 2; ++h)
    lines[h] =
        p.mask + i0 % p.masks * p.mask_side.batch[0] + i1 * p.mask_side.batch[1] +
        min(row + 8 * h, p.m - 1) * p.mask_side.row;
}

// A warpgroup's tiles of queries.
__device__ __forceinline__ void attend(const Params& p, u32 base, const Barriers& barriers, int n, int tiles) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, wg = warp >> 2, tid = threadIdx.x & 127;
  const int row0 = (warp & 3) * 16 + (lane >> 2);
  const float unit = (MASK ? 1.f : p.scale) * 1.4426950408889634f;
  wait_previous_grid();
  for (int turn = wg, item; (item = item_of(turn)) < p.items; turn += NWG) {
    const int head = item / p.groups, i1 = head % p.heads, i0 = head / p.heads, m0 = first_row(p, turn);
    // A warp whose queries lie behind the last does its part of the products alone.
    const bool alive = m0 + (warp & 3) * 16 < p.m;
    const u32 place = 2 * wg + (turn / NWG & 1), q = base + AT_Q + place * Q_BYTES;
    Rows rows;
    rows.top[0] = rows.top[1] = -INFINITE;
    rows.total[0] = rows.total[1] = rows.total[2] = rows.total[3] = 0.f;
    const float* lines[2];
    if (MASK) find_mask(lines, p, i0, i1, m0 + row0);
    barrier_wait(barriers.queries_full + 8 * place, turn / NWG >> 1 & 1);
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      const u32 use = turn / PER * tiles + tile, slot = use % STAGES, k = base + slot * STAGE, v = k + whole(K_BYTES),
                parity = use / STAGES & 1;
      const int key = tile * KEYS + (lane & 3) * 2;
      barrier_wait(barriers.keys_full + 8 * slot, parity);
      Scores scores;
      scores.multiply(q, k);
      if (tile == tiles - 1 && lane == 0) barrier_arrive(barriers.queries_empty + 8 * place);
      if (alive) {
        if (MASK) scores.add_mask(p, lines, key, n);
        if ((tile + 1) * KEYS > n) scores.cut(key, n);
        rows.add(scores, unit, tile == 0);
      }
      rows.multiply(scores, v, barriers.values_full + 8 * slot, parity, tile);
      if (lane == 0) barrier_arrive(barriers.empty + 8 * slot);
    }
    // The result goes by way of shared memory, once what lay there has been read.
    if (tid == 0) wait_stores_read<0>();
    sync_warpgroup(wg);
    const u32 to = base + AT_O + wg * O_BYTES;
    rows.store(p, to, row0);
    fence_for_copy_engine();
    sync_warpgroup(wg);
    if (tid == 0 && m0 < p.m) {
#pragma unroll
      for (int s = 0; s < DV / SE; ++s) store_4d(&p.y, to + s * 64 * ROW_E, s * SE, m0, i1, i0);
      commit_stores();
    }
  }
  if (tid == 0) wait_stores<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_wgmma(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory);
  const Barriers barriers(base + AT_BARRIERS);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, n = ONE ? COUNT : p.n, tiles = (n + KEYS - 1) / KEYS;
  if (threadIdx.x == 0) barriers.init();
  if (threadIdx.x == 32) prefetch_map(&p.q), prefetch_map(&p.k), prefetch_map(&p.v), prefetch_map(&p.y);
  __syncthreads();
  if (warp >= NWG * 4) {
    release_registers<loader_registers(NWG)>();
    if (warp == NWG * 4 && lane == 0) load_tiles(p, breadcrumb, base, barriers, tiles);
  } else {
    acquire_registers<product_registers(NWG, 1)>();
    attend(p, base, barriers, n, tiles);
  }
}
// For the host: bytes of shared memory, threads.
extern "C" __device__ const int meta[2] = {AT_BARRIERS + Barriers::SIZE, THREADS};
