// SPDX-License-Identifier: Apache-2.0
// Places behind the edges of a tensor of up to 6 axes. ELEMENT: any type of its bytes; MODE: what stands there, 0 a
// number, 1 the nearest element, 2 elements mirrored at the edges, 3 those of the other end.
typedef ELEMENT T;
#include "pad_params.h"
typedef tenon::cuda::PadParams Params;

extern "C" __global__ void __launch_bounds__(256) pad(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  i64 from = 0, to = 0;
  bool outside = false;
  u32 rest = i;
#pragma unroll
  for (int axis = 5; axis >= 0; --axis) {
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
  p.y[to] = outside ? (T)p.fill : p.x[from];
}
