// SPDX-License-Identifier: Apache-2.0
// What becomes of sums of products of bytes, exactly as ops/int8_conv.cpp has it but for activations by approximation.
// Where the activation is approximate anyway, products and sums are not rounded apart. Put before a kernel's own text.
// Macros: ACT, RESIDUAL; STRICT 1: activations by the CPU's steps (exact.cuh); FP8 1: the bytes are e4m3 floats without
// zero points, sums are floats; LISTED 1: the scales of the result and of the residual are lists by channel; YZ 0: the
// result's zero point is 0, 1: it is another, 2: it is another, and results may lie beyond 2^22 steps; IN_STEPS 1: all
// numbers are in steps of the result's scale (ops/int8_steps.h).

#if FP8
typedef float Sum;    // of products
typedef float Steps;  // a result over its scale
typedef e4m3 Weight;
#else
typedef int Sum;
typedef int Steps;
typedef i8 Weight;
#endif

#include "int8_params.h"
using tenon::cuda::Finish;
using tenon::cuda::Lists;
__device__ __forceinline__ float inverse_of(const float* inverses, int channel, const Finish& f) {
  return LISTED ? inverses[channel] : f.inverse;
}
__device__ __forceinline__ float r_scale_of(const float* r_scales, int channel, const Finish& f) {
  return LISTED ? r_scales[channel] : f.r_scale;
}

// Of a residual: what it adds, and where IN_STEPS that times `scale`.
struct Added {
  float value, scale;
};

constexpr bool LOOSE = !ACT::is_clamp && !STRICT;

// FAST: activations may be approximate; BYTE: the result becomes a byte, which clamps it at 0 where that is its zero
// point.
template <bool FAST, bool BYTE>
__device__ __forceinline__ float real_of(Sum sum, float scale, float bias, Added added, const Finish& f) {
  const float residual = added.value;
  if (FAST && LOOSE && same<ACT, tenon::expr::Silu> && RESIDUAL != 1) {
    const float h = fmaf((float)sum, 0.5f * scale, 0.5f * bias), v = fmaf(h, tanh_fast(h), h);
    return RESIDUAL == 2 ? v + residual : v;
  }
  float v = IN_STEPS || (FAST && LOOSE) ? fmaf((float)sum, scale, bias)
                                        : __fadd_rn(__fmul_rn((float)sum, scale), bias);
  if (IN_STEPS && RESIDUAL) v = fmaf(residual, added.scale, v);
  else if (RESIDUAL == 1) v = __fadd_rn(v, residual);
#if STRICT
  v = evaluate<ACT, Exact>(v, f.alpha, f.beta);
#else
  if (FP8 || !(BYTE && same<ACT, tenon::expr::Relu> && YZ == 0 && (IN_STEPS || RESIDUAL != 2)))
    v = activate<ACT, FAST>(v, f.alpha, f.beta);
#endif
  if (!IN_STEPS && RESIDUAL == 2) v = __fadd_rn(v, residual);
  return v;
}

#if FP8
__device__ __forceinline__ float steps_of(float v, float inverse, const Finish&) { return __fmul_rn(v, inverse); }
__device__ __forceinline__ u32 pack_bytes(float a, float b, float c, float d) {
  u32 r;
  asm("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; cvt.rn.satfinite.e4m3x2.f32 h, %4, %3; "
      "mov.b32 %0, {l, h};}"
      : "=r"(r)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return r;
}
// Byte k of a word of residuals.
__device__ __forceinline__ Added residual_of(u32 word, int k, float scale, const Finish&) {
  return {__fmul_rn(f32_of(e4m3{(u8)(word >> (8 * k))}), scale), 0.f};
}
#else
// Rounded to nearest even, with its zero point, before it is clamped to a byte.
__device__ __forceinline__ int steps_of(float v, float inverse, const Finish& f) {
  if (LOOSE && YZ == 1) return __float_as_int(fmaf(v, inverse, 12582912.f)) + f.y_zero;
  const float t = IN_STEPS ? v : __fmul_rn(v, inverse);
  if (YZ == 0) return __float2int_rn(t);
  if (YZ == 1) return __float_as_int(__fadd_rn(t, 12582912.f)) + f.y_zero;
  return __float2int_rn(fminf(fmaxf(t, -1e6f), 1e6f)) + f.y_zero;
}
__device__ __forceinline__ u32 pack_bytes(int a, int b, int c, int d) {
#if __CUDA_ARCH__ >= 720
  u32 r;
  asm("{.reg .b32 t; cvt.pack.sat.u8.s32.b32 t, %4, %3, 0; cvt.pack.sat.u8.s32.b32 %0, %2, %1, t;}"
      : "=r"(r)
      : "r"(a), "r"(b), "r"(c), "r"(d));
  return r;
#else
  return (u32)min(max(a, 0), 255) | (u32)min(max(b, 0), 255) << 8 | (u32)min(max(c, 0), 255) << 16 |
         (u32)min(max(d, 0), 255) << 24;
#endif
}
// Byte k of a word of residuals: the byte below 0x4b000000 is 2^23 and itself. `high`: those bits; where a kernel has
// them in a register that the compiler knows nothing of, it moves nothing for the choice of bytes.
__device__ __forceinline__ Added residual_of(u32 word, int k, float scale, const Finish& f, u32 high = 0x4b000000u) {
  const float steps = __uint_as_float(__byte_perm(word, high, 0x7440 + k)) - (IN_STEPS ? 8388608.f : f.r_base);
  if (IN_STEPS) return {steps, scale};
  return {LOOSE ? steps * scale : __fmul_rn(steps, scale), 0.f};
}
#endif
