// SPDX-License-Identifier: Apache-2.0
// An image of any strides as bytes with channels last, BLOCK x BLOCK pixels as the channels of one: channel
// (row * BLOCK + column) * C + c, padded to CH (a multiple of 16), with the padding that a convolution wants around it.
// ELEMENT: float, which is quantised, or u8. What lies outside of the image is the zero point. Behind
// quantise.cuh.
#include "int8_blocks_params.h"
typedef tenon::cuda::Int8BlocksParams Params;

extern "C" __global__ void __launch_bounds__(256)
    int8_blocks(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int w = i % p.out_w - p.pad_left, row = i / p.out_w, h = row % p.out_h - p.pad_top, n = row / p.out_h;
#pragma unroll
  for (int chunk = 0; chunk < CH / 16; ++chunk) {
    ELEMENT f[16];
    int q[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int channel = chunk * 16 + k, c = channel % C, place = channel / C;
      const int y = h * BLOCK + place / BLOCK, x = w * BLOCK + place % BLOCK;
      f[k] = sizeof(ELEMENT) == 1 ? (ELEMENT)p.zero : (ELEMENT)0;
      if (place < BLOCK * BLOCK && (u32)y < (u32)p.in_h && (u32)x < (u32)p.in_w)
        f[k] = p.x[n * p.xs[0] + y * p.xs[1] + x * p.xs[2] + c * p.xs[3]];
    }
    quantise(f, q, p.scale, p.inverse, p.zero);
    u32 packed[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      packed[k] = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) packed[k] |= (u32)min(max(q[4 * k + e], 0), 255) << (8 * e);
    }
    *(uint4*)(p.y + (i64)i * CH + chunk * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
  }
}
