// SPDX-License-Identifier: Apache-2.0
// Sigmoids and what is made with them in fewer steps than the exact ones, for results that are rounded to bytes.
#pragma once

#include "backends/cpu/kernels/int8/simd_int8.h"

#include "backends/cpu/kernels/vecmath.h"
#include "ops/expression_list.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

constexpr int kTogether = 4;  // vectors whose steps alternate, as those of one wait for each other

#ifdef __AVX2__
#define TENON_EACH TENON_UNROLL for (int i = 0; i < kTogether; ++i)

// y / (1 + 2^(n + f)) to about 2e-7 of it, for whole numbers n and -0.5 <= f <= 0.5. 2^f by a polynomial of degree 4.
TENON_INLINE void near_logistic(const Vec (&f)[kTogether], Vec (&n)[kTogether], Vec (&y)[kTogether]) {
  const Vec one = set1(1.f);
  Vec p[kTogether];
  TENON_EACH p[i] = fused(set1(9.58281382918e-3f), f[i], set1(5.59064298868e-2f));
  TENON_EACH p[i] = fused(p[i], f[i], set1(2.40240991116e-1f));
  TENON_EACH p[i] = fused(p[i], f[i], set1(6.93124175072e-1f));
  TENON_EACH p[i] = fused(p[i], f[i], one);
  TENON_EACH p[i] = scale_pow2(p[i], n[i]);
  TENON_EACH p[i] = add(one, p[i]);
  TENON_EACH n[i] = near_reciprocal(p[i]);
  TENON_EACH p[i] = negated_fused(p[i], n[i], one);
  TENON_EACH n[i] = fused(n[i], p[i], n[i]);
  TENON_EACH y[i] = mul(y[i], n[i]);
}

constexpr float kWhole = 12582912.f;  // what is added to a number and taken away again leaves a whole one

// y / (1 + exp(-x)).
TENON_INLINE void near_sigmoid(const Vec (&x)[kTogether], Vec (&y)[kTogether]) {
  const Vec turned = set1(-1.44269504f), whole = set1(kWhole);
  Vec f[kTogether], n[kTogether];
  TENON_EACH f[i] = max(set1(-80.f), x[i]);
  // Powers of two below all numbers are zero only where an instruction makes them.
  if constexpr (kLanes < 16) TENON_EACH f[i] = min(set1(80.f), f[i]);
  TENON_EACH n[i] = fused(f[i], turned, whole);
  TENON_EACH n[i] = sub(n[i], whole);
  TENON_EACH f[i] = fused_minus(f[i], turned, n[i]);
  near_logistic(f, n, y);
}

// y times the share of a normal distribution below x, whose odds are 2 to an odd polynomial: fitted so that the share
// errs by 3e-8 at most.
TENON_INLINE void near_normal(const Vec (&x)[kTogether], Vec (&y)[kTogether]) {
  const Vec whole = set1(kWhole), most = set1(115.f);
  Vec z[kTogether], f[kTogether], n[kTogether];
  TENON_EACH z[i] = mul(x[i], x[i]);
  TENON_EACH f[i] = fused(set1(-5.067246622303401e-9f), z[i], set1(3.8163162230375747e-7f));
  TENON_EACH f[i] = fused(f[i], z[i], set1(-1.1439837180660106e-5f));
  TENON_EACH f[i] = fused(f[i], z[i], set1(1.5957995492499322e-4f));
  TENON_EACH f[i] = fused(f[i], z[i], set1(9.404918819200248e-5f));
  TENON_EACH f[i] = fused(f[i], z[i], set1(-1.0483512282371521e-1f));
  TENON_EACH f[i] = fused(f[i], z[i], set1(-2.3022093772888184f));
  TENON_EACH f[i] = mul(f[i], x[i]);
  TENON_EACH f[i] = max(set1(-115.f), min(most, f[i]));
  TENON_EACH n[i] = add(f[i], whole);
  TENON_EACH n[i] = sub(n[i], whole);
  TENON_EACH f[i] = sub(f[i], n[i]);
  near_logistic(f, n, y);
}
#undef TENON_EACH
template <class Act>
constexpr bool kIsNear =
    std::is_same_v<Act, expr::Silu> || std::is_same_v<Act, expr::Gelu> || std::is_same_v<Act, expr::GeluTanh> ||
    std::is_same_v<Act, expr::QuickGelu> || std::is_same_v<Act, expr::Sigmoid> || std::is_same_v<Act, expr::Tanh>;

// The activation of x times a factor, for y that holds the factor times x, or of Sigmoid and Tanh the factor alone.
template <class Act>
TENON_INLINE void near_activation(const Vec (&x)[kTogether], [[maybe_unused]] float alpha, Vec (&y)[kTogether]) {
  if constexpr (std::is_same_v<Act, expr::Gelu>) {
    near_normal(x, y);
  } else if constexpr (std::is_same_v<Act, expr::Silu> || std::is_same_v<Act, expr::Sigmoid>) {
    near_sigmoid(x, y);
  } else if constexpr (std::is_same_v<Act, expr::Tanh>) {
    Vec inner[kTogether], twice[kTogether];
    TENON_UNROLL
    for (int i = 0; i < kTogether; ++i) inner[i] = add(x[i], x[i]), twice[i] = add(y[i], y[i]);
    near_sigmoid(inner, twice);
    TENON_UNROLL
    for (int i = 0; i < kTogether; ++i) y[i] = sub(twice[i], y[i]);
  } else {
    Vec inner[kTogether];
    TENON_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const bool is_quick = std::is_same_v<Act, expr::QuickGelu>;
      inner[i] =
          mul(x[i], is_quick ? set1(alpha) : fused(mul(x[i], x[i]), set1(7.13548162726e-2f), set1(1.59576912160573f)));
    }
    near_sigmoid(inner, y);
  }
}

// What these err by with a y, and with the largest byte.
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
  if (all_less(far, certain)) [[likely]]
    return true;
  far = zero();
  TENON_UNROLL
  for (int i = 0; i < kTogether; ++i) far = max(far, fused(abs(y[i]), set1(kErrorOfOne), away[i]));
  return all_less(far, add(certain, set1(kErrorOfLargest)));
}
// How far what near_activation() gives may be from the exact steps, for a factor: about 6e-7 of it, of Tanh, which is a
// difference of sigmoids twice as large, 1.5e-6, and kErrorOfLargest.
template <class Act>
TENON_INLINE Vec near_error(Vec factor) {
  constexpr float kOfFactor = std::is_same_v<Act, expr::Tanh> ? 2.5e-6f : 1e-6f;
  return fused(factor, set1(kOfFactor), set1(kErrorOfLargest + 1e-5f));
}
#else
template <class Act>
constexpr bool kIsNear = false;
template <class Act>
TENON_INLINE void near_activation(const Vec (&)[kTogether], float, Vec (&)[kTogether]) {}
TENON_INLINE bool rounds_alike(const Vec (&)[kTogether], Vec, IVec (&)[kTogether]) { return false; }
TENON_INLINE Vec largest(Vec v) { return v; }
template <class Act>
TENON_INLINE Vec near_error(Vec factor) {
  return factor;
}
#endif

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
