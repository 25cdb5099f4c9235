// SPDX-License-Identifier: Apache-2.0
// Resize by separable taps along two axes of four. ELEMENT: type; TAPS_A, TAPS_B: taps of each axis; VEC elements of
// the last axis a thread. Tables hold, for each output index, offsets in elements and weights.
typedef ELEMENT T;
#include "resize_params.h"
typedef tenon::cuda::ResizeParams Params;
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};

extern "C" __global__ void __launch_bounds__(256)
    resize(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  u32 at[4], rest = i;
#pragma unroll
  for (int axis = 3; axis >= 0; --axis) at[axis] = rest % p.dims[axis], rest /= p.dims[axis];
  at[3] *= VEC;
  i64 from = 0, to = 0;
#pragma unroll
  for (int axis = 0; axis < 4; ++axis) from += at[axis] * p.xs[axis], to += at[axis] * p.ys[axis];
  float sum[VEC] = {};
  Vec out;
#pragma unroll
  for (int a = 0; a < TAPS_A; ++a)
#pragma unroll
    for (int b = 0; b < TAPS_B; ++b) {
      const u32 ia = at[AXIS_A] * TAPS_A + a, ib = at[AXIS_B] * TAPS_B + b;
      const Vec v = *(const Vec*)(p.x + from + p.offset_a[ia] + p.offset_b[ib]);
      if (TAPS_A * TAPS_B == 1) {
        out = v;
      } else {
        const float weight = p.weight_a[ia] * p.weight_b[ib];
#pragma unroll
        for (int e = 0; e < VEC; ++e) sum[e] = fmaf(f32_of(v.e[e]), weight, sum[e]);
      }
    }
  if (TAPS_A * TAPS_B > 1)
#pragma unroll
    for (int e = 0; e < VEC; ++e) out.e[e] = of_f32<T>(sum[e]);
  *(Vec*)(p.y + to) = out;
}
