// SPDX-License-Identifier: Apache-2.0
// Reduction along any axes, a warp for each result. TX, TY: types; WIDE: what is counted in, f32 or i64 (WHOLE); KEPT,
// REDUCED: axes of each kind; OP 0 sum, 1 mean, 2 max, 3 min, 4 root of the sum of squares, 5 that sum, 6 sum of
// magnitudes, 7 product, 8 logarithm of the sum, 9 logarithm of the sum of e^x.
#include "reduce_any_params.h"
typedef tenon::cuda::ReduceAnyParams Params;
#include "wide.cuh"

template <int AXES>
__device__ __forceinline__ i64 place(u32 i, const u32 (&dims)[8], const i64 (&strides)[8]) {
  i64 at = 0;
#pragma unroll
  for (int axis = AXES - 1; axis >= 0; --axis) at += i % dims[axis] * strides[axis], i /= dims[axis];
  return at;
}

__device__ __forceinline__ WIDE larger(WIDE a, WIDE b) { return a != a ? a : b > a || b != b ? b : a; }
__device__ __forceinline__ WIDE smaller(WIDE a, WIDE b) { return a != a ? a : b < a || b != b ? b : a; }
template <int WHAT>
__device__ __forceinline__ WIDE joined(WIDE a, WIDE b) {
  return WHAT == 2 ? larger(a, b) : WHAT == 3 ? smaller(a, b) : WHAT == 7 ? a * b : a + b;
}
template <int WHAT>
__device__ __forceinline__ WIDE all_lanes(WIDE sum) {
#pragma unroll
  for (int step = 16; step; step /= 2) sum = joined<WHAT>(sum, __shfl_xor_sync(~0u, sum, step));
  return sum;
}

extern "C" __global__ void __launch_bounds__(256)
    reduce_any(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x & 31;
  if (i >= p.count) return;
  const TX* x = p.x + place<KEPT>(i, p.kept, p.kept_strides);
  const auto element = [&](u32 k) { return wide(x[place<REDUCED>(k, p.reduced, p.reduced_strides)]); };
  WIDE shift = 0;
  if (OP == 9) {
    shift = element(0);
    for (u32 k = lane; k < p.length; k += 32) shift = larger(shift, element(k));
    shift = all_lanes<2>(shift);
    if (!(shift - shift == 0)) shift = 0;
  }
  WIDE sum = OP == 2 || OP == 3 ? element(0) : OP == 7 ? 1 : 0;
  for (u32 k = lane; k < p.length; k += 32) {
    const WIDE v = element(k);
    sum = joined<OP>(sum, OP == 4 || OP == 5 ? v * v : OP == 6 && v < 0 ? -v : OP == 9 ? (WIDE)expf(v - shift) : v);
  }
  sum = all_lanes<OP>(sum);
  if (OP == 1) sum /= p.length;
  if (OP == 4) sum = sqrtf(sum);
  if (OP >= 8) sum = logf(sum) + shift;
  if (lane == 0) p.y[i] = narrow<TY>(sum);
}
