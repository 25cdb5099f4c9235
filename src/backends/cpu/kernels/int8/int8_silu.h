// SPDX-License-Identifier: Apache-2.0
// SiLU in fewer steps than the exact ones, for results that are rounded to bytes.
#pragma once

#include "backends/cpu/kernels/int8/simd_int8.h"

#include "backends/cpu/kernels/vecmath.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

constexpr int kTogether = 4;  // vectors whose steps alternate, as those of one wait for each other

#ifdef __AVX2__
constexpr bool kHasFused = true;
// y = x / (1 + exp(-x)) times a factor that y holds times x already, to about 2e-7 of it and 1e-6 of the factor. exp by
// a polynomial of degree 4 fitted to 2^f.
TENON_INLINE void near_silu(const Vec (&x)[kTogether], Vec (&y)[kTogether]) {
  const Vec turned = set1(-1.44269504f), magic = set1(12582912.f), one = set1(1.f);
  Vec inside[kTogether], n[kTogether], p[kTogether];
#define TENON_EACH TENON_UNROLL for (int i = 0; i < kTogether; ++i)
  TENON_EACH inside[i] = max(set1(-80.f), x[i]);
  // Powers of two below all numbers are zero only where an instruction makes them.
  if constexpr (kLanes < 16) TENON_EACH inside[i] = min(set1(80.f), inside[i]);
  TENON_EACH n[i] = fused(inside[i], turned, magic);
  TENON_EACH n[i] = sub(n[i], magic);
  TENON_EACH inside[i] = fused_minus(inside[i], turned, n[i]);
  TENON_EACH p[i] = fused(set1(9.58281382918e-3f), inside[i], set1(5.59064298868e-2f));
  TENON_EACH p[i] = fused(p[i], inside[i], set1(2.40240991116e-1f));
  TENON_EACH p[i] = fused(p[i], inside[i], set1(6.93124175072e-1f));
  TENON_EACH p[i] = fused(p[i], inside[i], one);
  TENON_EACH p[i] = scale_pow2(p[i], n[i]);
  TENON_EACH p[i] = add(one, p[i]);
  TENON_EACH n[i] = near_reciprocal(p[i]);
  TENON_EACH p[i] = negated_fused(p[i], n[i], one);
  TENON_EACH n[i] = fused(n[i], p[i], n[i]);
  TENON_EACH y[i] = mul(y[i], n[i]);
#undef TENON_EACH
}
// What near_silu() errs by with a y, and with the largest byte.
constexpr float kErrorOfOne = 5.5e-7f, kErrorOfLargest = 1.4e-4f;
// `whole` = y rounded; whether that is what the exact steps give, as no y is further from it than `certain`, or than
// that and what smaller ones err less.
TENON_INLINE bool rounds_alike(const Vec (&y)[kTogether], Vec certain, IVec (&whole)[kTogether]) {
  Vec away[kTogether], far = zero();
  TENON_UNROLL
  for (int i = 0; i < kTogether; ++i) {
    whole[i] = to_int(y[i]);
    away[i] = abs(sub(y[i], to_float(whole[i])));
    far = max(far, away[i]);
  }
  if (all_less(far, certain)) [[likely]] return true;
  far = zero();
  TENON_UNROLL
  for (int i = 0; i < kTogether; ++i) far = max(far, fused(abs(y[i]), set1(kErrorOfOne), away[i]));
  return all_less(far, add(certain, set1(kErrorOfLargest)));
}
// How far what near_silu() gives may be from the exact steps, for a factor: about 6e-7 of it, and kErrorOfLargest.
TENON_INLINE Vec silu_error(Vec factor) { return fused(factor, set1(1e-6f), set1(kErrorOfLargest + 1e-5f)); }
#else
constexpr bool kHasFused = false;
TENON_INLINE void near_silu(const Vec (&)[kTogether], Vec (&)[kTogether]) {}
TENON_INLINE bool rounds_alike(const Vec (&)[kTogether], Vec, IVec (&)[kTogether]) { return false; }
TENON_INLINE Vec largest(Vec v) { return v; }
TENON_INLINE Vec silu_error(Vec factor) { return factor; }
#endif

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
