// SPDX-License-Identifier: Apache-2.0
// Numbers as bytes over the range that they have, widened to hold 0: `ends` finds the least and the largest of each
// block's part, `dynamic_quantize` those of all, the scale and zero point that they give, and the bytes. VEC: numbers
// that a thread takes at once.
#include "dynamic_quantize_params.h"
typedef tenon::cuda::DynamicQuantizeParams Params;
struct alignas(4 * VEC) Numbers {
  float at[VEC];
};
struct alignas(VEC) Bytes {
  u8 at[VEC];
};

// Of all threads of the block, for each of them.
__device__ __forceinline__ float2 widest(float low, float high) {
  __shared__ float2 of_warps[8];
#pragma unroll
  for (int far = 16; far > 0; far /= 2) {
    low = fminf(low, __shfl_xor_sync(~0u, low, far));
    high = fmaxf(high, __shfl_xor_sync(~0u, high, far));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = make_float2(low, high);
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < 8; ++warp) low = fminf(low, of_warps[warp].x), high = fmaxf(high, of_warps[warp].y);
  return make_float2(low, high);
}

extern "C" __global__ void __launch_bounds__(256) ends(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  float low = 0.f, high = 0.f;
  for (i64 at = (i64)blockIdx.x * 256 + threadIdx.x; at < p.count / VEC; at += (i64)gridDim.x * 256) {
    const Numbers x = ((const Numbers*)p.x)[at];
#pragma unroll
    for (int k = 0; k < VEC; ++k) low = fminf(low, x.at[k]), high = fmaxf(high, x.at[k]);
  }
  const float2 all = widest(low, high);
  if (threadIdx.x == 0) p.parts[blockIdx.x] = all;
}

extern "C" __global__ void __launch_bounds__(256)
    dynamic_quantize(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  float low = 0.f, high = 0.f;
  for (int at = threadIdx.x; at < p.blocks; at += 256) {
    const float2 part = p.parts[at];
    low = fminf(low, part.x), high = fmaxf(high, part.y);
  }
  const float2 all = widest(low, high);
  const float scale = all.x == all.y ? 1.f : __fdiv_rn(__fsub_rn(all.y, all.x), 255.f);
  const int zero = __float2int_rn(fminf(fmaxf(__fdiv_rn(-all.x, scale), 0.f), 255.f));
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    if (p.scale) *p.scale = scale;
    if (p.zero) *p.zero = (u8)zero;
  }
  for (i64 at = (i64)blockIdx.x * 256 + threadIdx.x; at < p.count / VEC; at += (i64)gridDim.x * 256) {
    const Numbers x = ((const Numbers*)p.x)[at];
    Bytes y;
#pragma unroll
    for (int k = 0; k < VEC; ++k) {
      const int q = __float2int_rn(fminf(fmaxf(__fdiv_rn(x.at[k], scale), -1e6f), 1e6f)) + zero;
      y.at[k] = x.at[k] != x.at[k] ? (u8)zero : (u8)min(max(q, 0), 255);
    }
    ((Bytes*)p.y)[at] = y;
  }
}
