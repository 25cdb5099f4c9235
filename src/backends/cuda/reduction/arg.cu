// SPDX-License-Identifier: Apache-2.0
// The place of the largest (LARGEST 1) or smallest number of each line, of equal ones the first (LAST 1: the last);
// what is no number wins. Behind rank.cuh. Macros: TX, LARGEST, LAST, LANES (1, 32 or 256) of a line. Lines are `size`
// numbers at stride `inner`.
#include "arg_params.h"
typedef tenon::cuda::ArgParams Params;

extern "C" __global__ void __launch_bounds__(256) arg(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 line = ((i64)blockIdx.x * 256 + threadIdx.x) / LANES;
  if (line >= p.lines) return;
  const TX* x = p.x + line / p.inner * p.size * p.inner + line % p.inner;
  u64 best = 0;
  for (int i = threadIdx.x % LANES; i < p.size; i += LANES) {
    const float v = f32_of(x[i * p.inner]);
    const u32 order = LARGEST || v != v ? order_of(v) : ~order_of(v);
    const u64 key = (u64)order << 32 | (u32)(LAST ? i : ~i);
    best = key > best ? key : best;
  }
#if LANES > 1
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    const u64 other = __shfl_xor_sync(ALL_LANES, best, d);
    best = other > best ? other : best;
  }
#endif
#if LANES == 256
  __shared__ u64 of_warps[8];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < 8; ++warp) best = of_warps[warp] > best ? of_warps[warp] : best;
#endif
  if (threadIdx.x % LANES == 0) p.y[line] = (u32)(LAST ? best : ~best);
}
