// SPDX-License-Identifier: Apache-2.0
// Numbers as bytes: x / scale to the nearest, ties to even, and the zero point; not clamped yet. Put before a kernel's
// own text. Multiplying by the inverse is exact but near halves and for what is no number: there the division decides.
__device__ __forceinline__ float steps_from_half(float x, float inverse, float r) {
  return fabsf(fmaf(x, inverse, 12582912.f - r));
}
__device__ __forceinline__ int exact_byte(float x, float scale, int zero) {
  return x != x ? zero : __float2int_rn(fminf(fmaxf(__fdiv_rn(x, scale), -1e6f), 1e6f)) + zero;
}
template <int N>
__device__ __forceinline__ void quantise(const float (&x)[N], int (&q)[N], float scale, float inverse, int zero) {
  float worst = 0.f;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float r = fmaf(x[k], inverse, 12582912.f), far = steps_from_half(x[k], inverse, r);
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(worst) : "f"(far));
#else
    worst = far > worst || far != far ? far : worst;
#endif
    q[k] = __float_as_int(fmaxf(r, 12582912.f - 1000.f)) + (zero - 0x4b400000);
  }
  if (worst <= 0.4999f) return;
#pragma unroll
  for (int k = 0; k < N; ++k)
    if (!(steps_from_half(x[k], inverse, fmaf(x[k], inverse, 12582912.f)) <= 0.4999f))
      q[k] = exact_byte(x[k], scale, zero);
}
template <int N> __device__ __forceinline__ void quantise(const u8 (&x)[N], int (&q)[N], float, float, int) {
#pragma unroll
  for (int k = 0; k < N; ++k) q[k] = x[k];
}
