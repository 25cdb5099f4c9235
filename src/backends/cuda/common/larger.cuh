// SPDX-License-Identifier: Apache-2.0
// The larger numbers of two words of ELEMENT: one f32, two f16 or bf16, or two bytes, each as a half of its own. Put
// before a kernel's own text.
__device__ __forceinline__ u32 larger(u32 a, u32 b) {
  if (sizeof(ELEMENT) == 1) return __vmaxu2(a, b);
#if __CUDA_ARCH__ >= 800
  u32 r;
  if (sizeof(ELEMENT) == 4) asm("max.NaN.f32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  else asm("max.NaN." FLOAT16_NAME "x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  const auto of = [](float x, float y) { return y > x || y != y ? y : x; };
  if (sizeof(ELEMENT) == 4) return __float_as_uint(of(__uint_as_float(a), __uint_as_float(b)));
  return pack_halves(of(half_of(a, 0), half_of(b, 0)), of(half_of(a, 1), half_of(b, 1)));
#endif
}
