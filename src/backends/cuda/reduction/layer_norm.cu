// SPDX-License-Identifier: Apache-2.0
// Rows, each contiguous, with mean 0 and variance 1, times a scale and plus a bias of f32. ELEMENT and RESULT: types
// of input and output; LANES (a power of two up to 256) threads share a row, EACH times VEC neighbours each; THREADS a
// block; CENTRED 0: neither the mean is taken off nor a bias added; EARLY 1: scale and bias come from no kernel before
// this one, and are loaded before that has ended.
typedef ELEMENT T;
typedef RESULT R;
#include "layer_norm_params.h"
typedef tenon::cuda::LayerNormParams Params;
template <class E> struct __align__(VEC * sizeof(E) < 16 ? VEC * sizeof(E) : 16) Vec {
  E e[VEC];
};

// The sum over the threads of a row; each call has its own `parts`.
__device__ __forceinline__ float total(float v, float* parts) {
#pragma unroll
  for (int step = (LANES < 32 ? LANES : 32) / 2; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
#if LANES > 32
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.f;
#pragma unroll
  for (int k = 0; k < LANES / 32; ++k) v += parts[threadIdx.x / LANES * (LANES / 32) + k];
#endif
  return v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    layer_norm(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ float parts[2][THREADS / 32];
  const int lane = threadIdx.x % LANES;
  const i64 row = (i64)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
  const bool alive = row < p.rows;
  const T* x = p.x + (alive ? row : 0) * p.x_pitch;
  R* y = p.y + (alive ? row : 0) * p.y_pitch;
#if EARLY
  Vec<float> scales[EACH] = {}, biases[EACH] = {};
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int k = (lane + i * LANES) * VEC;
    if (k < p.length && p.scale) scales[i] = *(const Vec<float>*)(p.scale + k);
    if (k < p.length && CENTRED && p.bias) biases[i] = *(const Vec<float>*)(p.bias + k);
  }
#endif
  wait_for_previous(breadcrumb);
  Vec<float> v[EACH];
  float mean = 0.f, sum = 0.f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int k = (lane + i * LANES) * VEC;
    Vec<T> in = {};
    if (k < p.length) in = *(const Vec<T>*)(x + k);
#pragma unroll
    for (int e = 0; e < VEC; ++e) sum += v[i].e[e] = f32_of(in.e[e]);
  }
  if (CENTRED) mean = total(sum, parts[0]) / p.length;
  sum = 0.f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if ((lane + i * LANES) * VEC >= p.length) continue;
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      v[i].e[e] -= mean;
      sum = fmaf(v[i].e[e], v[i].e[e], sum);
    }
  }
  const float factor = rsqrtf(total(sum, parts[1]) / p.length + p.epsilon);
  if (!alive) return;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int k = (lane + i * LANES) * VEC;
    if (k >= p.length) continue;
#if EARLY
    const Vec<float>&scale = scales[i], &bias = biases[i];
#else
    Vec<float> scale, bias = {};
    if (p.scale) scale = *(const Vec<float>*)(p.scale + k);
    if (CENTRED && p.bias) bias = *(const Vec<float>*)(p.bias + k);
#endif
    Vec<R> out;
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      const float r = v[i].e[e] * factor * (p.scale ? scale.e[e] : 1.f);
      out.e[e] = of_f32<R>(CENTRED && p.bias ? r + bias.e[e] : r);
    }
    *(Vec<R>*)(y + k) = out;
  }
}
