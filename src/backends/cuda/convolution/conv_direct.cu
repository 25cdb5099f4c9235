// SPDX-License-Identifier: Apache-2.0
// Convolution of floats by direct.cuh, in f32. TX, TY: types of input and output (and residual); ACT, RESIDUAL.
#include "conv_direct_params.h"
typedef tenon::cuda::ConvDirectParams Params;

extern "C" __global__ void __launch_bounds__(256)
    conv_direct(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  float sum[4][4] = {};
  direct_sums<float, float4>(p, [](TX x) { return f32_of(x); }, [](float w) { return w; }, sum);
  for_direct_sums(p, [&](int i, int j, int c, i64 other, i64 to) {
    float v = sum[i][j] + p.bias[c];
    if (RESIDUAL == 1) v += f32_of(p.residual[other]);
    v = activate<ACT, sizeof(TY) == 2>(v, p.alpha, p.beta);
    if (RESIDUAL == 2) v += f32_of(p.residual[other]);
    p.y[to] = of_f32<TY>(v);
  });
}
