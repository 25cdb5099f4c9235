// SPDX-License-Identifier: Apache-2.0
// Convolution by weights that the network computes, in f32, a thread for each result. TX, TW, TB, TY: types of input,
// weights, bias and output (and residual); KH, KW: taps; BIAS 1: there is one; ACT, RESIDUAL.
#include "conv_run_weights_params.h"
typedef tenon::cuda::ConvRunWeightsParams Params;

extern "C" __global__ void __launch_bounds__(128)
    conv_run_weights(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 128 + threadIdx.x;
  if (i >= p.count) return;
  const int o = i % p.out_c, q = i / p.out_c % p.out_w, r = i / p.out_c / p.out_w % p.out_h;
  const i64 n = i / p.out_c / p.out_w / p.out_h;
  const TX* x = p.x + n * p.xs[0] + (i64)(o / p.c_out) * p.c_in * p.xs[3];
  const TW* w = p.w + o * p.ws[0];
  const int top = r * p.stride_h - p.pad_top, left = q * p.stride_w - p.pad_left;
  float sum = 0.f;
  for (int kr = 0; kr < KH; ++kr) {
    const int h = top + kr * p.dilation_h;
    if ((u32)h >= (u32)p.in_h) continue;
#pragma unroll 4
    for (int ks = 0; ks < KW; ++ks) {
      const int column = left + ks * p.dilation_w;
      if ((u32)column >= (u32)p.in_w) continue;
      const TX* from = x + h * p.xs[1] + column * p.xs[2];
      const TW* by = w + kr * p.ws[2] + ks * p.ws[3];
      for (int c = 0; c < p.c_in; ++c) sum = fmaf(f32_of(from[c * p.xs[3]]), f32_of(by[c * p.ws[1]]), sum);
    }
  }
  if (BIAS) sum += f32_of(p.bias[o]);
  const auto at = [&](const i64 (&strides)[4]) {
    return n * strides[0] + r * strides[1] + q * strides[2] + o * strides[3];
  };
  if (RESIDUAL == 1) sum += f32_of(p.residual[at(p.rs)]);
  sum = activate<ACT, sizeof(TY) == 2>(sum, p.alpha, p.beta);
  if (RESIDUAL == 2) sum += f32_of(p.residual[at(p.rs)]);
  p.y[at(p.ys)] = of_f32<TY>(sum);
}
