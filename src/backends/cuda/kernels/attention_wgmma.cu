// softmax(Q K^T scale + mask) V in 16-bit floats on wgmma (compute capability 9.0a): persistent, one warpgroup loads,
// NWG take tiles of 64 queries in turn; scores and their powers stay in registers. Macros: D, E columns of keys and of
// values, in slabs of SD and SE; KEYS of a tile; COUNT of all where one tile holds them, else 0; PER tiles of queries
// share the keys (NWG, or more where COUNT is not 0); STAGES of keys and values; BLOCKS that fit into a multiprocessor
// together; MASK 1: f32 is added to the scores; NAN_TO_ZERO 1: a row without any weight gives zeros.
// hopper.cuh, Mma<KEYS>, Mma<KEYS / 2> and KeptMma<E> stand before this text.
typedef ELEMENT T;
struct Side {
  i64 batch[2], row, column;  // strides
};
struct Params {
  TensorMap q, k, v, y;
  const float* mask;
  Side mask_side;
  int heads, m, n, groups, items;  // groups of PER tiles of a head's queries; items: groups of all heads
  float scale;
};

constexpr bool ONE = COUNT > 0;
constexpr int ROW_D = SD * 2, ROW_E = SE * 2;  // bytes
constexpr int Q_BYTES = 64 * D * 2, O_BYTES = 64 * E * 2, K_BYTES = KEYS * D * 2, V_BYTES = KEYS * E * 2;
constexpr int whole(int bytes) { return (bytes + 1023) / 1024 * 1024; }
constexpr int STAGE = whole(K_BYTES) + whole(V_BYTES);
constexpr int AT_Q = STAGES * STAGE, AT_O = AT_Q + 2 * NWG * Q_BYTES, AT_BARRIERS = AT_O + NWG * O_BYTES;
constexpr int THREADS = NWG * 128 + 128;
// The sums of one product must fit into the registers that a thread begins with.
constexpr int PARTS = NWG == 3 && KEYS > 192 ? 2 : 1;
constexpr int REGISTERS = NWG == 2 ? 240 : NWG == 3 ? 160 : 0, LOADER_REGISTERS = NWG == 2 ? 24 : 32;
static_assert(Q_BYTES % 1024 == 0 && O_BYTES % 1024 == 0, "swizzled rows begin at multiples of a kilobyte");

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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_wgmma(const Trail trail, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory), keys_full = base + AT_BARRIERS, values_full = keys_full + 8 * STAGES,
            empty = values_full + 8 * STAGES, queries_full = empty + 8 * STAGES, queries_empty = queries_full + 16 * NWG;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, n = ONE ? COUNT : p.n, tiles = (n + KEYS - 1) / KEYS;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; ++i) {
      barrier_init(keys_full + 8 * i, 1), barrier_init(values_full + 8 * i, 1);
      barrier_init(empty + 8 * i, 4 * PER);
    }
    for (int i = 0; i < 2 * NWG; ++i) barrier_init(queries_full + 8 * i, 1), barrier_init(queries_empty + 8 * i, 4);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (threadIdx.x == 32) prefetch_map(&p.q), prefetch_map(&p.k), prefetch_map(&p.v), prefetch_map(&p.y);
  __syncthreads();
  // Turns number a block's tiles of queries through all of its items.
  const auto item_of = [&](int turn) { return (int)(blockIdx.x + turn / PER * gridDim.x); };
  const auto first_row = [&](int turn) { return (item_of(turn) % p.groups * PER + turn % PER) * 64; };

  if (warp >= NWG * 4) {
    if (REGISTERS) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LOADER_REGISTERS));
    if (warp > NWG * 4 || lane > 0) return;
    wait_previous_grid();
    launch_next_grid();
    leave(trail);
    u32 use = 0;
    for (int first = 0, item; (item = item_of(first)) < p.items; first += PER) {
      const int head = item / p.groups, i1 = head % p.heads, i0 = head / p.heads;
      const auto load_queries = [&](int turn) {
        const u32 place = turn % NWG * 2 + (turn / NWG & 1), bar = queries_full + 8 * place;
        barrier_wait(queries_empty + 8 * place, (turn / NWG >> 1 & 1) ^ 1);
        barrier_expect(bar, Q_BYTES);
        load_rows<D, SD>(base + AT_Q + place * Q_BYTES, &p.q, bar, 64, first_row(turn), i1, i0);
      };
      // Further queries than the first wait for room, which comes when keys are there.
      for (int turn = first; turn < first + (ONE ? 1 : PER); ++turn) load_queries(turn);
      for (int tile = 0; tile < tiles; ++tile, ++use) {
        const u32 slot = use % STAGES, to = base + slot * STAGE;
        barrier_wait(empty + 8 * slot, (use / STAGES & 1) ^ 1);
        barrier_expect(keys_full + 8 * slot, K_BYTES);
        load_rows<D, SD>(to, &p.k, keys_full + 8 * slot, KEYS, tile * KEYS, i1, i0);
        barrier_expect(values_full + 8 * slot, V_BYTES);
        load_rows<E, SE>(to + whole(K_BYTES), &p.v, values_full + 8 * slot, KEYS, tile * KEYS, i1, i0);
      }
      for (int turn = first + 1; ONE && turn < first + PER; ++turn) load_queries(turn);
    }
  } else {
    if (REGISTERS) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS ? REGISTERS : 24));
    const int wg = warp >> 2, tid = threadIdx.x & 127, row0 = (warp & 3) * 16 + (lane >> 2);
    const float infinity = __int_as_float(0x7f800000), unit = (MASK ? 1.f : p.scale) * 1.4426950408889634f;
    wait_previous_grid();
    for (int turn = wg, item; (item = item_of(turn)) < p.items; turn += NWG) {
      const int head = item / p.groups, i1 = head % p.heads, i0 = head / p.heads, m0 = first_row(turn);
      // A warp whose queries lie behind the last does its part of the products alone.
      const bool alive = m0 + (warp & 3) * 16 < p.m;
      const u32 place = 2 * wg + (turn / NWG & 1), q = base + AT_Q + place * Q_BYTES;
      float sum[E / 2], top[2] = {-infinity, -infinity}, total[4] = {};
#if MASK
      const float* lines[2];
#pragma unroll
      for (int h = 0; h < 2; ++h)
        lines[h] = p.mask + i0 * p.mask_side.batch[0] + i1 * p.mask_side.batch[1] +
                   min(m0 + row0 + 8 * h, p.m - 1) * p.mask_side.row;
#endif
      barrier_wait(queries_full + 8 * place, turn / NWG >> 1 & 1);
#pragma unroll 1
      for (int tile = 0; tile < tiles; ++tile) {
        const u32 use = turn / PER * tiles + tile, slot = use % STAGES, k = base + slot * STAGE,
                  v = k + whole(K_BYTES), parity = use / STAGES & 1;
        const int key = tile * KEYS + (lane & 3) * 2;
        barrier_wait(keys_full + 8 * slot, parity);
        float scores[PARTS][KEYS / PARTS / 2];
        const auto s = [&](int i) -> float& { return scores[i / (KEYS / PARTS / 2)][i % (KEYS / PARTS / 2)]; };
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int d = 0; d < D / 16; ++d) {
          const u32 slab = d * 16 / SD, at = d * 16 % SD * 2;
#pragma unroll
          for (int part = 0; part < PARTS; ++part)
            Mma<KEYS / PARTS>::run(
                scores[part], operand<ROW_D>(q + slab * 64 * ROW_D + at, 8 * ROW_D),
                operand<ROW_D>(k + (slab * KEYS + part * (KEYS / PARTS)) * ROW_D + at, 8 * ROW_D), d);
        }
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (tile == tiles - 1 && lane == 0) barrier_arrive(queries_empty + 8 * place);
        if (alive) {
#if MASK
#pragma unroll
          for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const float other = lines[e / 2][min(key + j * 8 + (e & 1), n - 1) * p.mask_side.column];
              // The smallest numbers stay numbers.
              s(j * 4 + e) = fmaf(s(j * 4 + e), p.scale, other < -2e38f && other > -infinity ? -2e38f : other);
            }
#endif
          if ((tile + 1) * KEYS > n) {
#pragma unroll
            for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
              for (int e = 0; e < 4; ++e)
                if (j * 8 + 7 >= COUNT && key + j * 8 + (e & 1) >= n) s(j * 4 + e) = -infinity;
          }
          float high[2] = {top[0], top[1]}, less[2];
#pragma unroll
          for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
            for (int h = 0; h < 2; ++h) high[h] = fmaxf(high[h], fmaxf(s(j * 4 + 2 * h), s(j * 4 + 2 * h + 1)));
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            high[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 1));
            high[h] = fmaxf(high[h], __shfl_xor_sync(~0u, high[h], 2));
            less[h] = high[h] == -infinity ? 0.f : high[h] * unit;
            if (ONE) continue;
            const float factor = power(fmaf(top[h], unit, -less[h]));
            top[h] = high[h], total[2 * h] *= factor, total[2 * h + 1] *= factor;
#pragma unroll
            for (int j = 0; j < E / 8; ++j)
              if (tile > 0) sum[j * 4 + 2 * h] *= factor, sum[j * 4 + 2 * h + 1] *= factor;
          }
#pragma unroll
          for (int j = 0; j < KEYS / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) total[e] += s(j * 4 + e) = power(fmaf(s(j * 4 + e), unit, -less[e / 2]));
        }
        u32 a[KEYS / 16][4];
#pragma unroll
        for (int i = 0; i < KEYS / 16; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) a[i][e] = pack_halves(s(i * 8 + 2 * e), s(i * 8 + 2 * e + 1));
        barrier_wait(values_full + 8 * slot, parity);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < KEYS / 16; ++i) KeptMma<E>::run(sum, a[i], values_at(v + i * 16 * ROW_E), tile + i);
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (lane == 0) barrier_arrive(empty + 8 * slot);
      }
      // The result goes by way of shared memory, once what lay there has been read.
      if (tid == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
      const u32 to = base + AT_O + wg * O_BYTES;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float all = total[2 * h] + total[2 * h + 1];
        all += __shfl_xor_sync(~0u, all, 1);
        all += __shfl_xor_sync(~0u, all, 2);
        const bool nothing = NAN_TO_ZERO && !(all > 0.f);
        const float factor = 1.f / all;
        const int row = row0 + 8 * h;
#pragma unroll
        for (int j = 0; j < E / 8; ++j) {
          const u32 pair = nothing ? 0 : pack_halves(sum[j * 4 + 2 * h] * factor, sum[j * 4 + 2 * h + 1] * factor);
          const u32 at = to + j * 8 / SE * 64 * ROW_E + row * ROW_E + ((j * 8 % SE / 8 ^ swizzle<ROW_E>(row)) << 4);
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + (lane & 3) * 4), "r"(pair) : "memory");
        }
      }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
      if (tid == 0 && m0 < p.m) {
#pragma unroll
        for (int s = 0; s < E / SE; ++s) store_4d(&p.y, to + s * 64 * ROW_E, s * SE, m0, i1, i0);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
    }
    if (tid == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
// For the host: bytes of shared memory, threads.
extern "C" __device__ const int meta[2] = {AT_BARRIERS + 24 * STAGES + 32 * NWG, THREADS};
