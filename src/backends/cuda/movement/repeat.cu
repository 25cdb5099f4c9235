// SPDX-License-Identifier: Apache-2.0
// Each pixel of channels last, FH x FW times. A thread has VEC channels of one. Macros: ELEMENT, VEC, CHANNELS, FH, FW.
typedef ELEMENT T;
constexpr u32 VECTORS = CHANNELS / VEC;
#include "repeat_params.h"
typedef tenon::cuda::RepeatParams Params;
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};

extern "C" __global__ void __launch_bounds__(128)
    repeat(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const u32 i = blockIdx.x * 128 + threadIdx.x, column = i / VECTORS, channel = i % VECTORS * VEC;
  const u32 n = blockIdx.y / p.height, row = blockIdx.y % p.height;
  wait_for_previous(breadcrumb);
  if (column >= p.width) return;
  const Vec v = *(const Vec*)(p.x + n * p.xs[0] + row * p.xs[1] + column * p.xs[2] + channel);
  T* to = p.y + n * p.ys[0] + row * FH * p.ys[1] + column * FW * p.ys[2] + channel;
#pragma unroll
  for (int h = 0; h < FH; ++h)
#pragma unroll
    for (int w = 0; w < FW; ++w) *(Vec*)(to + h * p.ys[1] + w * p.ys[2]) = v;
}
