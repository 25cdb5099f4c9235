// SPDX-License-Identifier: Apache-2.0
// Each element of an image is the sum of what the blocks hold of it. ELEMENT: type; sums are of f32.
typedef ELEMENT T;
#include "col2im_params.h"
typedef tenon::cuda::Col2ImParams Params;

extern "C" __global__ void __launch_bounds__(256)
    col2im(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 index = (i64)blockIdx.x * 256 + threadIdx.x;
  if (index >= p.count) return;
  const int w = index % p.image[2], h = index / p.image[2] % p.image[1],
            d = index / p.image[2] / p.image[1] % p.image[0];
  const int at[3] = {d + p.pads[0], h + p.pads[1], w + p.pads[2]};
  const T* x = p.x + index / p.image[2] / p.image[1] / p.image[0] * p.taps * p.blocks;
  float sum = 0.f;
  for (int tap = 0; tap < p.taps; ++tap) {
    const int taps[3] = {tap / (p.block[1] * p.block[2]), tap / p.block[2] % p.block[1], tap % p.block[2]};
    int block = 0;
    bool inside = true;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      const int from = at[axis] - taps[axis] * p.dilations[axis], step = from / p.strides[axis];
      inside &= from >= 0 && step * p.strides[axis] == from && step < p.steps[axis];
      block = block * p.steps[axis] + step;
    }
    if (inside) sum += f32_of(x[(i64)tap * p.blocks + block]);
  }
  p.y[index] = of_f32<T>(sum);
}
