// SPDX-License-Identifier: Apache-2.0
// Convolution on wgmma (compute capability 9.0a): persistent, one warpgroup loads, NWG multiply. Macros beside those of
// conv_ring.cuh:
//   OB bytes of the result's and the residual's element. BYTES 1: operands are bytes, the result too or f16, behind
//      int8.cuh; else operands are 16-bit floats, the result too or f32
//   ZP of bytes: 0 the input's zero point is 0, or in the bias; 1 it adds to every sum, 2 and less where taps lie
//      outside; 3 it is in the bias, and less where taps lie outside
//   NBUF buffers a warpgroup for its result (and residual) on the way to memory, 0: straight from and to registers
//   GB bytes of channels a group: four lanes share a group, position n of its GC channels holds channel
//      n % 8 / 2 * (GC / 4) + n / 8 * 2 + n % 2; the lists by channel are packed in the order of reading
//   SWAP 1 (MODE 2, COUT <= BN = 64): weights are the M operand, WM pixels the N operand; position n of 16 holds
//      channel n % 8 * 2 + n / 8
//   ODD 1: results (no residuals) are stored one by one, from a buffer
//   BLOCKS that fit into a multiprocessor together
//   ACT, RESIDUAL
// Mma<N> of the widths in use stand before this text.
#include "conv_finish.cuh"
#include "conv_ring.cuh"

constexpr int MI = SWAP ? 1 : WM / 64, NI = SWAP ? WM : BN;
constexpr int OUT_BYTES = WM * BN * OB, BUFFERS = NBUF ? NBUF : 1;
constexpr int GC = GB / OB, NG = BN / GC;
constexpr int CH = GB / 4 < 16 ? GB / 4 : 16, TS = GB / 4 / CH;  // bytes an access, accesses a thread and group
constexpr int V = CH / OB;                                       // channels an access
// What a block keeps of the lists by channel, and of what borders add: reading them from memory at the end of a tile
// would be waited for.
constexpr int OWN = BRES ? BN : NT * BN, KEPT = OWN * 4 * NUMBERS <= 8192 ? OWN * NUMBERS : 0;
constexpr int SUMS = EDGES && OWN * 4 * SUM_CLASSES <= 9216 ? OWN * SUM_CLASSES : 0;
constexpr int AT_OUT = AT_STAGES + STAGES * STAGE, AT_BIAS = AT_OUT + NWG * NBUF * OUT_BYTES,
              AT_SUMS = AT_BIAS + KEPT * 4, AT_PLACES = AT_SUMS + SUMS * 4, AT_BARRIERS = AT_PLACES + PLACES;
static_assert(BN % GC == 0 && OUT_BYTES % 1024 == 0, "alignment");
constexpr int THREADS = pipeline_threads(NWG);

#include "conv_wgmma_params.h"
typedef tenon::cuda::ConvWgmmaParams Params;

struct Barriers {
  Ring<STAGES> ring;
  u32 weights_full, other_full, other_empty;  // the last two of each buffer
  Turns<NWG> turns;

  static constexpr int SIZE = 16 * STAGES + 8 + 16 * NWG * NBUF + 8 * NWG;
  __device__ __forceinline__ explicit Barriers(u32 at) {
    ring = {at, at + 8 * STAGES}, weights_full = at + 16 * STAGES;
    other_full = weights_full + 8, other_empty = other_full + 8 * NWG * NBUF;
    turns = {other_empty + 8 * NWG * NBUF};
  }
  __device__ __forceinline__ void init() const {
    ring.init(4 * CONSUMERS);
    barrier_init(weights_full, 1);
    turns.init();
    for (int i = 0; i < NWG * NBUF; ++i) barrier_init(other_full + 8 * i, 1), barrier_init(other_empty + 8 * i, 1);
    publish_barriers();
  }
};

// By one thread: residuals into the buffers of the results.
__device__ __forceinline__ void load_residuals(const Params& p, u32 base, const Barriers& barriers) {
  wait_previous_grid();
  int nt, mt, count[NWG] = {};
  for (int it = 0; tile_of(p, it, nt, mt); ++it) {
#pragma unroll
    for (int w = 0; w < NWG; ++w) {
      if (!COOP && it % NWG != w) continue;
      const int i = count[w]++, buffer = w * NBUF + i % BUFFERS;
      barrier_wait(barriers.other_empty + 8 * buffer, ((i / BUFFERS) & 1) ^ 1);
      const u32 to = base + AT_OUT + buffer * OUT_BYTES, bar = barriers.other_full + 8 * buffer;
      barrier_expect(bar, OUT_BYTES);
      for (int g = 0; g < NG; ++g) {
        if (HALO) {
          const Corner corner = corner_of(p, mt);
          load_4d(to + g * WM * GB, &p.residual, bar, nt * BN + g * GC, corner.w, corner.h + (COOP ? w * (WM / 8) : 0),
                  corner.n);
        } else {
          load_2d(to + g * WM * GB, &p.residual, bar, nt * BN + g * GC, mt * TM + (COOP ? w * WM : 0));
        }
      }
    }
  }
}

typedef Sum Sums[MI][NI / 2];

// The products of a stage at `pixels`: of all taps with an input tile, or of KSUB slabs of depth from k * KSUB on.
__device__ __forceinline__ void multiply_halo(Sums& sum, u32 pixels, u32 weights, int wg) {
  const int first_row = COOP ? wg * (WM / 8) : 0;
#pragma unroll
  for (int t = 0; t < KR * KS; ++t)
#pragma unroll
    for (int part = 0; part < SLABS * KB / 32; ++part) {
      const int s = part / (KB / 32), kk = part % (KB / 32), byte = (t * SLABS + s) * KB + kk * 32;
      const u64 b = operand<KBB>(weights + byte / KBB * BN * KBB + byte % KBB, 8 * KBB);
#pragma unroll
      for (int mi = 0; mi < MI; ++mi) {
        const u32 row = (first_row + mi * 8 + t / KS) * PW + t % KS;
        const u64 a = operand<KB>(pixels + s * A_SLAB + row * KB + kk * 32, PW * KB);
        Mma<NI>::run(sum[mi], SWAP ? b : a, SWAP ? a : b, t + part);
      }
    }
}
__device__ __forceinline__ void multiply_slabs(Sums& sum, u32 pixels, u32 weights, int wg, int k) {
#pragma unroll
  for (int s = 0; s < KSUB; ++s)
#pragma unroll
    for (int kk = 0; kk < KB / 32; ++kk) {
      const int byte = (k * KSUB + s) * KB + kk * 32;
      const u64 b = BRES ? operand<KBB>(weights + byte / KBB * BN * KBB + byte % KBB, 8 * KBB)
                         : operand<KB>(pixels + A_BYTES + s * BN * KB + kk * 32, 8 * KB);
#pragma unroll
      for (int mi = 0; mi < MI; ++mi) {
        const u32 row = (COOP ? wg * WM : 0) + mi * 64;
        Mma<NI>::run(sum[mi], operand<KB>(pixels + s * TM * KB + row * KB + kk * 32, 8 * KB), b, k + s + kk);
      }
    }
}

// A warpgroup's part of a tile, and what a thread of it reads and writes.
struct Place {
  int wg, q, row0;       // q: of the four lanes that share channels; row0: the thread's first row
  int nt, m0, own_row;   // tile of channels; first pixel; first row of results in an image (MODE 2)
  Corner corner;         // of the tile
  u32 staged;            // its buffer
  const float* numbers;  // lists of the tile
  Borders borders;
  int own;  // the tile among those whose borders are kept
};

__device__ __forceinline__ void add_four(Sum* to, const int4& z) {
  to[0] += z.x, to[1] += z.y, to[4] += z.z, to[5] += z.w;
}
__device__ __forceinline__ void add_zero_points(Sums& sum, const Place& at) {
#pragma unroll
  for (int g = 0; g < NG; ++g)
#pragma unroll
    for (int i = 0; i < GC / 4; i += 4) {
      const int4 z = *(const int4*)(at.numbers + 2 * BN + (g * (GC / 16) + i / 4) * 16 + at.q * 4);
#pragma unroll
      for (int mi = 0; mi < MI; ++mi)
#pragma unroll
        for (int h = 0; h < 2; ++h) add_four(&sum[mi][(g * (GC / 8) + i / 2) * 4 + h * 2], z);
    }
}
__device__ __forceinline__ void add_borders(Sums& sum, const Params& p, const Place& at) {
#pragma unroll
  for (int mi = 0; mi < MI; ++mi)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = mi * 64 + at.row0 + 8 * h;
      int y, x;
      if (HALO) {
        y = min(at.own_row + row / 8, p.out_h - 1), x = min(at.corner.w + row % 8, p.out_w - 1);
      } else {
        const u32 place = (u32)(at.m0 + row) % (u32)(p.out_h * p.out_w);
        y = place / (u32)p.out_w, x = place % (u32)p.out_w;
      }
      const int edge = at.borders.rows[y] + at.borders.columns[x];
      if (edge == 0) continue;
      const int* more = at.borders.sums + edge * at.borders.pitch + at.own * BN + at.q * (GC / 4);
#pragma unroll
      for (int g = 0; g < NG; ++g)
#pragma unroll
        for (int i = 0; i < GC / 4; i += 4)
          add_four(&sum[mi][(g * (GC / 8) + i / 2) * 4 + h * 2], *(const int4*)(more + g * GC + i));
    }
}

// Results of access t of group g: of two rows of each 64.
__device__ __forceinline__ void finish_access(const Sums& sum, const Params& p, const Place& at, int g, int t) {
  const int byte = at.q * (GB / 4) + t * CH, channel = at.nt * BN + g * GC + byte / OB;
  const float *inverses = at.numbers + INVERSES * BN, *r_scales = inverses + BN;
  const auto listed = [&](int k) { return ((g * TS + t) * (V / 4) + k / 4) * 16 + at.q * 4 + k % 4; };
  float bias[V], scale[V];
#pragma unroll
  for (int k = 0; k < V; k += 4) {
    *(float4*)&bias[k] = *(const float4*)(at.numbers + listed(k));
    if (BYTES) *(float4*)&scale[k] = *(const float4*)(at.numbers + BN + listed(k));
  }
#pragma unroll
  for (int mi = 0; mi < MI; ++mi)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = mi * 64 + at.row0 + 8 * h;
      const u32 staged = at.staged + g * WM * GB + row * GB + (((byte >> 4) ^ swizzle<GB>(row)) << 4) + (byte & 15);
      i64 pixel = 0;
      bool inside = true;
      if (!NBUF) {
        if (HALO) {
          const int y = at.own_row + row / 8, x = at.corner.w + row % 8;
          inside = y < p.out_h && x < p.out_w, pixel = (i64)(at.corner.n * p.out_h + y) * p.out_w + x;
        } else {
          inside = at.m0 + row < p.pixels, pixel = at.m0 + row;
        }
        inside = inside && channel < COUT;
      }
      u32 r[4] = {}, o[4];
      if (RESIDUAL && NBUF) load_shared<CH>(r, staged);
      else if (RESIDUAL && inside) load_global<CH>(r, p.other + pixel * p.other_pitch + channel * OB);
      float v[V];
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const int i = t * V + k;
        v[k] = result_of(sum[mi][(g * (GC / 8) + i / 2) * 4 + h * 2 + i % 2], scale[k], bias[k],
                         residual_at(r, k, r_scales, listed(k), p.finish), p.finish);
      }
      pack_results<V>(o, v, inverses, listed, p.finish);
      if (NBUF) store_shared<CH>(staged, o);
      else if (inside) store_global<CH>(p.to + pixel * p.to_pitch + channel * OB, o);
    }
}
__device__ __forceinline__ void finish_tile(Sums& sum, const Params& p, const Place& at) {
  if (ADDS) add_zero_points(sum, at);
  if (EDGES) add_borders(sum, p, at);
#pragma unroll
  for (int g = 0; g < NG; ++g)
#pragma unroll
    for (int t = 0; t < TS; ++t) finish_access(sum, p, at, g, t);
}

// Of SWAP: a thread has two channels of two neighbouring pixels in each row of 8.
__device__ __forceinline__ void add_to_swapped(Sums& sum, const Params& p, const Place& at, int c0) {
  const int* zeros = (const int*)at.numbers + (ADDS ? 2 : 0) * BN + c0;
#pragma unroll
  for (int j = 0; j < WM / 8; ++j) {
    const int y = at.own_row + j, x0 = at.corner.w + 2 * at.q;
    const int row = EDGES && y < p.out_h ? at.borders.rows[y] : 0;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (ADDS) sum[0][j * 4 + e] += zeros[0], sum[0][j * 4 + 2 + e] += zeros[1];
      const int edge = EDGES ? row + (x0 + e < p.out_w ? at.borders.columns[x0 + e] : 0) : 0;
      if (edge) {
        const int2 more = *(const int2*)(at.borders.sums + edge * at.borders.pitch + c0);
        sum[0][j * 4 + e] += more.x, sum[0][j * 4 + 2 + e] += more.y;
      }
    }
  }
}
__device__ __forceinline__ void finish_swapped(Sums& sum, const Params& p, const Place& at) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, c0 = (warp & 3) * 16 + (lane >> 2) * 2, byte = c0 * OB;
  const float *inverses = at.numbers + INVERSES * BN + c0, *r_scales = inverses + BN;
  const auto itself = [](int k) { return k; };
  if (ZP) add_to_swapped(sum, p, at, c0);
#pragma unroll
  for (int j = 0; j < WM / 8; ++j)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int pixel = j * 8 + 2 * at.q + e;
      const u32 staged = at.staged + pixel * GB + (((byte >> 4) ^ swizzle<GB>(2 * at.q + e)) << 4) + (byte & 15);
      u32 r[4] = {}, o[4];
      if (RESIDUAL) load_shared<2 * OB>(r, staged);
      float v[2];
#pragma unroll
      for (int h = 0; h < 2; ++h)
        v[h] = result_of(sum[0][j * 4 + h * 2 + e], BYTES ? at.numbers[BN + c0 + h] : 0.f, at.numbers[c0 + h],
                         residual_at(r, h, r_scales, h, p.finish), p.finish);
      pack_results<2>(o, v, inverses, itself, p.finish);
      store_shared<2 * OB>(staged, o);
    }
}

// The same where the copy engine cannot write them: row by row, neighbouring channels by neighbouring threads.
__device__ __forceinline__ void store_odd_tile(const Params& p, const Place& at) {
  sync_warpgroup(at.wg);
  const int warp = threadIdx.x >> 5 & 3, lane = threadIdx.x & 31, channels = min(BN, COUT - at.nt * BN);
#pragma unroll 4
  for (int row = warp; row < WM; row += 4) {
    i64 pixel = at.m0 + row;
    bool inside = pixel < p.pixels;
    if (HALO) {
      const int y = at.own_row + row / 8, x = at.corner.w + row % 8;
      inside = y < p.out_h && x < p.out_w, pixel = (i64)(at.corner.n * p.out_h + y) * p.out_w + x;
    }
    if (!inside) continue;
    u8* const to = p.to + pixel * p.to_pitch + at.nt * BN * OB;
#pragma unroll
    for (int c = lane; c < BN; c += 32) {
      const int byte = c % GC * OB;
      u32 word[4];
      load_shared<OB>(
          word, at.staged + c / GC * WM * GB + row * GB + (((byte >> 4) ^ swizzle<GB>(row)) << 4) + (byte & 15));
      if (c < channels) store_one(to + c * OB, word, 0);
    }
  }
}
// The results in a warpgroup's buffer go to memory.
__device__ __forceinline__ void store_tile(const Params& p, const Place& at) {
  if constexpr (ODD) return store_odd_tile(p, at);
  fence_for_copy_engine();
  sync_warpgroup(at.wg);
  if ((threadIdx.x & 127) != 0) return;
  for (int g = 0; g < NG; ++g) {
    const int channel = at.nt * BN + g * GC;
    if (HALO) store_4d(&p.y, at.staged + g * WM * GB, channel, at.corner.w, at.own_row, at.corner.n);
    else store_2d(&p.y, at.staged + g * WM * GB, channel, at.m0);
  }
  commit_stores();
}

// By one thread, before tile `mine` of its warpgroup is finished: its buffer is free once its store before last has
// been read; a residual is loaded into the one freed.
__device__ __forceinline__ void free_buffer(const Barriers& barriers, int wg, int mine) {
  if (ODD) return;  // nothing is on its way
  if (RESIDUAL) {
    if (mine > 0) {
      wait_stores_read<0>();
      barrier_arrive(barriers.other_empty + 8 * (wg * NBUF + (mine - 1) % BUFFERS));
    }
  } else {
    wait_stores_read<BUFFERS - 1>();
  }
}

// A warpgroup's tiles.
__device__ __forceinline__ void multiply_tiles(const Params& p, u8* memory, u32 base, const Barriers& barriers) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, tid = threadIdx.x & 127, wg = warp >> 2;
  const int own_tile = BRES ? blockIdx.x % NT : 0;
  // The loading warps do not wait for the lists.
  for (int i = threadIdx.x; i < KEPT / 4; i += NWG * 128)
    copy_16(base + AT_BIAS + i * 16, p.numbers + own_tile * BN * NUMBERS + i * 4);
  Borders borders = {};
  if (EDGES)
    borders = keep_borders<OWN, NT * BN, NWG * 128>(p, memory, base, own_tile * BN, SUMS > 0, AT_SUMS, AT_PLACES);
  if (KEPT || EDGES) {
    wait_copies();
    asm volatile("bar.sync 8, %0;" ::"n"(NWG * 128) : "memory");
  }
  if (BRES) barrier_wait(barriers.weights_full, 0);
  // What this warpgroup stores, and loads itself, may be in use by the grid before.
  wait_previous_grid();
  int nt, mt, mine = 0;
  for (int it = COOP ? 0 : wg; tile_of(p, it, nt, mt); it += COOP ? 1 : NWG, ++mine) {
    Sums sum;
    if (TAKES_TURNS) barriers.turns.wait(wg, mine);
    const auto begin = [&](int k) {
      if (TAKES_TURNS && k == NST - 1 && tid == 0) barriers.turns.pass(wg);
    };
    const u32 last = multiply_stages<NST>(barriers.ring, it * NST, begin, [&](int k, u32 slot) {
      const u32 pixels = base + AT_STAGES + slot * STAGE;
      if constexpr (HALO) multiply_halo(sum, pixels, base, wg);
      else multiply_slabs(sum, pixels, base, wg, k);
    });
    const int buffer = wg * NBUF + mine % BUFFERS;
    if (NBUF && tid == 0) free_buffer(barriers, wg, mine);
    wait_products<0>();
    if (lane == 0) barriers.ring.release(last);
    if (NBUF && RESIDUAL) barrier_wait(barriers.other_full + 8 * buffer, (mine / BUFFERS) & 1);
    else if (NBUF) sync_warpgroup(wg);
    const Corner corner = corner_of(p, mt);
    const int own = BRES ? 0 : nt;
    const float* numbers = KEPT ? (const float*)(memory + AT_BIAS) + own * BN * NUMBERS : p.numbers + nt * BN * NUMBERS;
    const Place at = {wg,
                      lane & 3,
                      (warp & 3) * 16 + (lane >> 2),
                      nt,
                      mt * TM + (COOP ? wg * WM : 0),
                      corner.h + (HALO && COOP ? wg * (WM / 8) : 0),
                      corner,
                      base + AT_OUT + buffer * OUT_BYTES,
                      numbers,
                      borders,
                      own};
    if constexpr (SWAP) finish_swapped(sum, p, at);
    else finish_tile(sum, p, at);
    if (NBUF) store_tile(p, at);
  }
  if (NBUF && !ODD && tid == 0) wait_stores<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    conv_wgmma(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory);
  const Barriers barriers(base + AT_BARRIERS);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x == 32) {
    prefetch_map(&p.a), prefetch_map(&p.b);
    if (NBUF && !ODD) prefetch_map(&p.y);
    if (NBUF && RESIDUAL) prefetch_map(&p.residual);
  }
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  if (warp >= NWG * 4) {
    release_registers<loader_registers(NWG)>();
    if (warp == NWG * 4 && lane == 0) load_tiles(p, breadcrumb, base, barriers.ring, barriers.weights_full);
    if (RESIDUAL && NBUF && warp == NWG * 4 + 1 && lane == 0) load_residuals(p, base, barriers);
  } else {
    acquire_registers<product_registers(NWG, BLOCKS)>();
    multiply_tiles(p, memory, base, barriers);
  }
}
// For the host: bytes of shared memory, threads, pixels a tile, height and width of the halo tile.
extern "C" __device__ const int meta[5] = {AT_BARRIERS + Barriers::SIZE, THREADS, TM, HALO ? PH : 0, HALO ? PW : 0};
