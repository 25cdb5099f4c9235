// SPDX-License-Identifier: Apache-2.0
// Places behind the edges of a tensor of AXES axes, up to 6. ELEMENT: any type of its bytes, VEC of them at a time: the
// last axis is counted in vectors; MODE: what stands behind an edge, 0 a number, 1 the nearest element, 2 elements
// mirrored at the edges, 3 those of the other end.
typedef ELEMENT T;
#include "pad_params.h"
typedef tenon::cuda::PadParams Params;
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};

extern "C" __global__ void __launch_bounds__(256) pad(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  i64 from = 0, to = 0;
  bool outside = false;
  u32 rest = i;
#pragma unroll
  for (int axis = AXES - 1; axis >= 0; --axis) {
    const u32 at = rest % p.dims[axis];
    rest /= p.dims[axis];
    to += at * p.ys[axis];
    const int size = p.sizes[axis];
    int place = (int)at - p.before[axis];
    if (place < 0 || place >= size) {
      if (MODE == 0) outside = true, place = 0;
      if (MODE == 1) place = place < 0 ? 0 : size - 1;
      if (MODE == 2) {
        const int period = size > 1 ? 2 * (size - 1) : 1;
        place = (place % period + period) % period;
        if (place >= size) place = period - place;
      }
      if (MODE == 3) place = (place % size + size) % size;
    }
    from += place * p.xs[axis];
  }
  Vec v;
  if (outside) {
#pragma unroll
    for (int e = 0; e < VEC; ++e) v.e[e] = (T)p.fill;
  } else {
    v = *(const Vec*)(p.x + from);
  }
  *(Vec*)(p.y + to) = v;
}
