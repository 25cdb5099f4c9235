// SPDX-License-Identifier: Apache-2.0
// Convolution of f32 on wgmma in tf32 (compute capability 9.0a): persistent, one warpgroup loads, NWG multiply. The
// instruction drops the lower 13 bits of what it reads, so weights are rounded when packed and results when stored.
// Macros beside those of conv_ring.cuh: MODE 0 and 1 alone, WM 64 times MI, KBB as KB; ACT, RESIDUAL.
// Position n of 16 weights holds channel n % 8 / 2 * 4 + n / 8 * 2 + n % 2: four lanes store 64 bytes of a pixel.
// Mma<BN> stands before this text.
#include "conv_ring.cuh"

constexpr int AT_BARRIERS = AT_STAGES + STAGES * STAGE, BARRIERS = 16 * STAGES + 8 + 8 * NWG;
constexpr int THREADS = pipeline_threads(NWG), GROUPS = BN / 16;
static_assert(BN % 16 == 0 && (BN * KB % 1024 == 0 || (!BRES && KSUB == 1)), "alignment");
// The residual of a small tile is asked for before the tile's products.
constexpr bool EARLY = RESIDUAL && MI * BN <= (NWG == 4 ? 64 : 128);

#include "conv_tf32_params.h"
typedef tenon::cuda::ConvTf32Params Params;

__device__ __forceinline__ float rounded(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

typedef float Sums[MI][BN / 2];
typedef float Four[4];  // neighbouring channels of a pixel

// A thread's residuals of 16 channels, four of each of its rows.
__device__ __forceinline__ void load_residual(Four (&v)[MI][2], const Params& p, int m0, int channel) {
#pragma unroll
  for (int mi = 0; mi < MI; ++mi)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int m = m0 + mi * 64 + 8 * h;
      float4 f = make_float4(0.f, 0.f, 0.f, 0.f);
      if (channel < COUT && m < p.pixels) f = *(const float4*)(p.other + m * p.other_pitch + channel);
      v[mi][h][0] = f.x, v[mi][h][1] = f.y, v[mi][h][2] = f.z, v[mi][h][3] = f.w;
    }
}

__device__ __forceinline__ void multiply_slabs(Sums& sum, u32 pixels, u32 weights, int wg, int k) {
#pragma unroll
  for (int s = 0; s < KSUB; ++s)
#pragma unroll
    for (int kk = 0; kk < KB / 32; ++kk) {
      const u64 b =
          operand<KB>((BRES ? weights + (k * KSUB + s) * BN * KB : pixels + A_BYTES + s * BN * KB) + kk * 32, 8 * KB);
#pragma unroll
      for (int mi = 0; mi < MI; ++mi) {
        const u32 row = (COOP ? wg * WM : 0) + mi * 64;
        Mma<BN>::run(sum[mi], operand<KB>(pixels + s * TM * KB + row * KB + kk * 32, 8 * KB), b, k + s + kk);
      }
    }
}

// 16 channels of a warpgroup's tile, of which the thread has four in each of its rows.
__device__ __forceinline__ void finish_group(const Sums& sum, const Four (&residual)[MI][2], const Params& p, int g,
                                             int m0, int channel) {
  const float4 four = *(const float4*)(p.bias + channel);
  const float bias[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
  for (int mi = 0; mi < MI; ++mi)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int m = m0 + mi * 64 + 8 * h;
      if (m >= p.pixels) continue;
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float f = sum[mi][g * 8 + e / 2 * 4 + h * 2 + e % 2] + bias[e];
        if (RESIDUAL == 1) f += residual[mi][h][e];
        f = activate<ACT, false>(f, p.alpha, p.beta);
        if (RESIDUAL == 2) f += residual[mi][h][e];
        v[e] = rounded(f);
      }
      *(float4*)(p.to + m * p.to_pitch + channel) = make_float4(v[0], v[1], v[2], v[3]);
    }
}

// A warpgroup's tiles.
__device__ __forceinline__ void multiply_tiles(const Params& p, u32 base, const Ring<STAGES>& ring, u32 weights_full,
                                               const Turns<NWG>& turns) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, wg = warp >> 2;
  const int q = lane & 3, row0 = (warp & 3) * 16 + (lane >> 2);
  int nt, mt, mine = 0;
  if (BRES) barrier_wait(weights_full, 0);
  // What this warpgroup stores, and loads itself, may be in use by the grid before.
  wait_previous_grid();
  for (int it = COOP ? 0 : wg; tile_of(p, it, nt, mt); it += COOP ? 1 : NWG, ++mine) {
    Sums sum;
    const int m0 = mt * TM + (COOP ? wg * WM : 0) + row0, channel0 = nt * BN + q * 4;
    Four early[EARLY ? GROUPS : 1][MI][2];
    if (EARLY)
#pragma unroll
      for (int g = 0; g < GROUPS; ++g) load_residual(early[EARLY ? g : 0], p, m0, channel0 + g * 16);
    if (TAKES_TURNS) turns.wait(wg, mine);
    const auto begin = [&](int k) {
      if (TAKES_TURNS && k == NST - 1 && (threadIdx.x & 127) == 0) turns.pass(wg);
    };
    const u32 last = multiply_stages<NST>(ring, it * NST, begin, [&](int k, u32 slot) {
      multiply_slabs(sum, base + AT_STAGES + slot * STAGE, base, wg, k);
    });
    wait_products<0>();
    if (lane == 0) ring.release(last);
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      const int channel = channel0 + g * 16;
      if (channel >= COUT) continue;
      Four late[MI][2];
      if (RESIDUAL && !EARLY) load_residual(late, p, m0, channel);
      finish_group(sum, EARLY ? early[EARLY ? g : 0] : late, p, g, m0, channel);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv_tf32(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 memory[];
  const u32 base = shared_address(memory), weights_full = base + AT_BARRIERS + 16 * STAGES;
  const Ring<STAGES> ring = {base + AT_BARRIERS, base + AT_BARRIERS + 8 * STAGES};
  const Turns<NWG> turns = {weights_full + 8};
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  if (threadIdx.x == 32) prefetch_map(&p.a), prefetch_map(&p.b);
  if (threadIdx.x == 0) {
    ring.init(4 * CONSUMERS);
    barrier_init(weights_full, 1);
    turns.init();
    publish_barriers();
  }
  __syncthreads();
  if (warp >= NWG * 4) {
    release_registers<loader_registers(NWG)>();
    if (warp == NWG * 4 && lane == 0) load_tiles(p, breadcrumb, base, ring, weights_full);
  } else {
    acquire_registers<product_registers(NWG, 1)>();
    multiply_tiles(p, base, ring, weights_full, turns);
  }
}
// For the host: bytes of shared memory, threads.
extern "C" __device__ const int meta[2] = {AT_BARRIERS + BARRIERS, THREADS};
