// SPDX-License-Identifier: Apache-2.0
// An image with channels first as channels last in TY, BLOCK x BLOCK pixels as the channels of one: channel
// (row * BLOCK + column) * C + c, padded with zeros to CH. ELEMENT: type of the input.
#include "blocks_params.h"
typedef tenon::cuda::BlocksParams Params;

__device__ __forceinline__ void store8(float16* to, const float (&v)[8]) {
  *(uint4*)to =
      make_uint4(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]), pack_halves(v[4], v[5]), pack_halves(v[6], v[7]));
}
__device__ __forceinline__ void store8(float* to, const float (&v)[8]) {
  ((float4*)to)[0] = *(const float4*)&v[0], ((float4*)to)[1] = *(const float4*)&v[4];
}

extern "C" __global__ void __launch_bounds__(256)
    blocks(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  // A thread writes all chunks of a pixel where they are few, so that it uses all of what it reads.
  constexpr int CHUNKS = CH / 8, EACH = CHUNKS <= 4 ? CHUNKS : 1, GROUPS = CHUNKS / EACH;
  const int per_row = p.out_w * GROUPS, row = i / per_row, group = i % per_row / p.out_w, w = i % p.out_w,
            h = row % p.out_h, n = row / p.out_h;
#pragma unroll
  for (int part = 0; part < EACH; ++part) {
    const int chunk = group * EACH + part;
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int channel = chunk * 8 + k, c = channel % C, place = channel / C;
      const int y = h * BLOCK + place / BLOCK, x = w * BLOCK + place % BLOCK;
      const bool inside = place < BLOCK * BLOCK && y < p.in_h && x < p.in_w;
      v[k] = inside ? f32_of(p.x[n * p.xs[0] + y * p.xs[1] + x * p.xs[2] + c * p.xs[3]]) : 0.f;
    }
    store8(p.y + ((i64)row * p.out_w + w) * CH + chunk * 8, v);
  }
}
