// SPDX-License-Identifier: Apache-2.0
// x / (bias + alpha * the sum of squares of neighbouring channels)^beta. ELEMENT: type.
typedef ELEMENT T;
#include "lrn_params.h"
typedef tenon::cuda::LrnParams Params;

extern "C" __global__ void __launch_bounds__(256) lrn(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int channel = i / p.step % p.channels;
  const int first = channel < p.before ? -channel : -p.before;
  const int last = channel + p.after < p.channels ? p.after : p.channels - 1 - channel;
  float sum = 0.f;
  for (int k = first; k <= last; ++k) {
    const float v = f32_of(p.x[i + k * p.step]);
    sum = fmaf(v, v, sum);
  }
  p.y[i] = of_f32<T>(f32_of(p.x[i]) * powf(fmaf(p.alpha, sum, p.bias), -p.beta));
}
