// SPDX-License-Identifier: Apache-2.0
// A 1x1 convolution with few results: a thread makes all OUT channels of a pixel from CIN contiguous ones. TX, TY
// types; VEC channels a load; ACT, RESIDUAL (of TY). Weights: [result][channel] in f32.
#include "conv_few_params.h"
typedef tenon::cuda::ConvFewParams Params;
struct __align__(VEC * sizeof(TX)) Vec {
  TX e[VEC];
};

extern "C" __global__ void __launch_bounds__(128)
    conv_few(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const int m = blockIdx.x * 128 + threadIdx.x;
  if (m >= p.pixels) return;
  const int q = m % p.out_w, r = m / p.out_w % p.out_h, n = m / p.out_w / p.out_h;
  wait_for_previous(breadcrumb);
  const TX* x = p.x + n * p.xs[0] + r * p.xs[1] + q * p.xs[2];
  float sum[OUT];
#pragma unroll
  for (int o = 0; o < OUT; ++o) sum[o] = p.bias[o];
#pragma unroll 4
  for (int c = 0; c < CIN; c += VEC) {
    const Vec v = *(const Vec*)(x + c);
#pragma unroll
    for (int o = 0; o < OUT; ++o)
#pragma unroll
      for (int e = 0; e < VEC; ++e) sum[o] = fmaf(f32_of(v.e[e]), p.w[o * CIN + c + e], sum[o]);
  }
#pragma unroll
  for (int o = 0; o < OUT; ++o) {
    const float other = RESIDUAL ? f32_of(p.residual[n * p.rs[0] + r * p.rs[1] + q * p.rs[2] + o]) : 0.f;
    float v = RESIDUAL == 1 ? sum[o] + other : sum[o];
    v = activate<ACT, sizeof(TY) == 2>(v, p.alpha, p.beta);
    p.y[n * p.ys[0] + r * p.ys[1] + q * p.ys[2] + o] = of_f32<TY>(RESIDUAL == 2 ? v + other : v);
  }
}
