// SPDX-License-Identifier: Apache-2.0
// Resize by separable taps along two or three (CHANGED) of four or five (AXES) axes. ELEMENT: type; AXIS_A, TAPS_A and
// so on: a resized axis and its taps; VEC elements of the last axis a thread. Tables hold, for each output index,
// offsets in elements and weights.
typedef ELEMENT T;
#include "resize_params.h"
typedef tenon::cuda::ResizeParams Params;
#if CHANGED < 3
#define AXIS_C 0
#define TAPS_C 1
#endif
constexpr int TAPS = TAPS_A * TAPS_B * TAPS_C;
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};

extern "C" __global__ void __launch_bounds__(256)
    resize(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  u32 at[AXES], rest = i;
#pragma unroll
  for (int axis = AXES - 1; axis >= 0; --axis) at[axis] = rest % p.dims[axis], rest /= p.dims[axis];
  at[AXES - 1] *= VEC;
  i64 from = 0, to = 0;
#pragma unroll
  for (int axis = 0; axis < AXES; ++axis) from += at[axis] * p.xs[axis], to += at[axis] * p.ys[axis];
  float sum[VEC] = {};
  Vec out;
#pragma unroll
  for (int a = 0; a < TAPS_A; ++a)
#pragma unroll
    for (int b = 0; b < TAPS_B; ++b)
#pragma unroll
      for (int c = 0; c < TAPS_C; ++c) {
        const u32 ia = at[AXIS_A] * TAPS_A + a, ib = at[AXIS_B] * TAPS_B + b, ic = at[AXIS_C] * TAPS_C + c;
        const i64 place = from + p.offsets[0][ia] + p.offsets[1][ib] + (CHANGED > 2 ? p.offsets[2][ic] : 0);
        const Vec v = *(const Vec*)(p.x + place);
        if (TAPS == 1) {
          out = v;
        } else {
          const float weight = p.weights[0][ia] * p.weights[1][ib] * (CHANGED > 2 ? p.weights[2][ic] : 1.f);
#pragma unroll
          for (int e = 0; e < VEC; ++e) sum[e] = fmaf(f32_of(v.e[e]), weight, sum[e]);
        }
      }
  if (TAPS > 1)
#pragma unroll
    for (int e = 0; e < VEC; ++e) out.e[e] = of_f32<T>(sum[e]);
  *(Vec*)(p.y + to) = out;
}
