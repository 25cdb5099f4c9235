// SPDX-License-Identifier: Apache-2.0
// Softmax of rows that lie along four axes. ELEMENT: type; LOG: the logarithm; SHORT: the length where a thread holds a
// whole row of multiples of 16 bytes, else 0 and LANES lanes share a row.
typedef ELEMENT T;
#include "softmax_params.h"
typedef tenon::cuda::SoftmaxParams Params;
#include "strided_rows.cuh"

#if SHORT
constexpr int VEC = 16 / sizeof(T);
struct __align__(16) Vec {
  T e[VEC];
};

extern "C" __global__ void __launch_bounds__(256)
    softmax(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 row = (i64)blockIdx.x * 256 + threadIdx.x;
  if (row >= p.rows) return;
  const T* x;
  T* y;
  row_of(p, row, x, y);
  float v[SHORT], top = -__int_as_float(0x7f800000), sum = 0.f;
#pragma unroll
  for (int k = 0; k < SHORT; k += VEC) {
    const Vec in = *(const Vec*)(x + k);
#pragma unroll
    for (int e = 0; e < VEC; ++e) v[k + e] = f32_of(in.e[e]), top = fmaxf(top, v[k + e]);
  }
#pragma unroll
  for (int k = 0; k < SHORT; ++k) {
    const float power = expf(v[k] - top);
    sum += power;
    v[k] = LOG ? v[k] - top : power;
  }
  const float scale = LOG ? logf(sum) : 1.f / sum;
#pragma unroll
  for (int k = 0; k < SHORT; k += VEC) {
    Vec out;
#pragma unroll
    for (int e = 0; e < VEC; ++e) out.e[e] = of_f32<T>(LOG ? v[k + e] - scale : v[k + e] * scale);
    *(Vec*)(y + k) = out;
  }
}
#else
extern "C" __global__ void __launch_bounds__(256)
    softmax(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int lane = threadIdx.x % LANES;
  const i64 row = (i64)blockIdx.x * (256 / LANES) + threadIdx.x / LANES;
  const bool alive = row < p.rows;
  const T* x;
  T* y;
  row_of(p, alive ? row : 0, x, y);
  float top = -__int_as_float(0x7f800000);
  for (i64 k = lane; alive && k < p.length; k += LANES) top = fmaxf(top, f32_of(x[k * p.x_step]));
#pragma unroll
  for (int step = LANES / 2; step; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
  float sum = 0.f;
  for (i64 k = lane; alive && k < p.length; k += LANES) sum += expf(f32_of(x[k * p.x_step]) - top);
#pragma unroll
  for (int step = LANES / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  const float scale = LOG ? logf(sum) : 1.f / sum;
  for (i64 k = lane; alive && k < p.length; k += LANES) {
    const float v = f32_of(x[k * p.x_step]) - top;
    y[k * p.y_step] = of_f32<T>(LOG ? v - scale : expf(v) * scale);
  }
}
#endif
