// SPDX-License-Identifier: Apache-2.0
// The place of the largest (LARGEST 1) or smallest number of each line, of equal ones the first (LAST 1: the last);
// what is no number wins. Behind rank.cuh. Macros: TX, LARGEST, LAST, LANES (1, 32 or 256) of a line. Lines are `size`
// numbers at stride `inner`.
#include "arg_params.h"
typedef tenon::cuda::ArgParams Params;

// A number's order, and its place turned so that the one that wins among equals is the larger.
struct Best {
  i64 order;
  u32 place;
};
template <class T> __device__ __forceinline__ i64 order_in(T x) {
  const float v = f32_of(x);
  const i64 order = order_of(v);
  return LARGEST || v != v ? order : -order;
}
__device__ __forceinline__ i64 order_in(int x) { return LARGEST ? (i64)x : ~(i64)x; }
__device__ __forceinline__ i64 order_in(i64 x) { return LARGEST ? x : ~x; }
__device__ __forceinline__ void take(Best& best, const Best& other) {
  if (other.order > best.order || (other.order == best.order && other.place > best.place)) best = other;
}

extern "C" __global__ void __launch_bounds__(256) arg(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 line = ((i64)blockIdx.x * 256 + threadIdx.x) / LANES;
  if (line >= p.lines) return;
  const TX* x = p.x + line / p.inner * p.size * p.inner + line % p.inner;
  Best best{(i64)1 << 63, 0};
  for (int i = threadIdx.x % LANES; i < p.size; i += LANES)
    take(best, {order_in(x[i * p.inner]), (u32)(LAST ? i : ~i)});
#if LANES > 1
#pragma unroll
  for (int d = 16; d > 0; d /= 2)
    take(best, {__shfl_xor_sync(ALL_LANES, best.order, d), __shfl_xor_sync(ALL_LANES, best.place, d)});
#endif
#if LANES == 256
  __shared__ Best of_warps[8];
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < 8; ++warp) take(best, of_warps[warp]);
#endif
  if (threadIdx.x % LANES == 0) p.y[line] = (u32)(LAST ? best.place : ~best.place);
}
