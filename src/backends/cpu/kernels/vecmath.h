// SPDX-License-Identifier: Apache-2.0
// Elementary functions on vectors: relative error about 2e-7 unless said otherwise.
#pragma once

#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// Infinity above 88.7; below -87.3 denormals where the processor keeps them, and zero. Two-part reduction by 2 ln 2, so
// that the power of 4 has a square root that is a float, and 1 + r + r^2 P(r), P of degree 5.
static TENON_INLINE Vec exp(Vec x) {
  x = min(set1(89.f), max(set1(-104.f), x));
  const Vec n = round(mul(x, set1(0.721347520f)));
  Vec r = fnma(n, set1(1.38671875f), x);
  r = fnma(n, set1(-4.24388880e-4f), r);
  Vec p = set1(1.9611600146e-4f);
  p = fma(p, r, set1(1.4104478760e-3f));
  p = fma(p, r, set1(8.3361035213e-3f));
  p = fma(p, r, set1(4.1661266237e-2f));
  p = fma(p, r, set1(1.6666613519e-1f));
  p = fma(p, r, set1(5.0000035763e-1f));
  p = fma(mul(p, r), r, add(r, set1(1.f)));
  return scale_pow4(p, n);
}

static TENON_INLINE Vec abs(Vec x) { return bit_and(x, set1(__builtin_bit_cast(float, 0x7fffffff))); }
static TENON_INLINE Vec sign_of(Vec x) { return bit_and(x, set1(-0.f)); }

// The hyperbolic tangent below 0.625: an odd polynomial (Cephes tanhf).
static TENON_INLINE Vec small_tanh(Vec x) {
  const Vec z = mul(x, x);
  Vec p = set1(-5.70498872745e-3f);
  p = fma(p, z, set1(2.06390887954e-2f));
  p = fma(p, z, set1(-5.37397155531e-2f));
  p = fma(p, z, set1(1.33314422036e-1f));
  p = fma(p, z, set1(-3.33332819422e-1f));
  return fma(mul(p, z), x, x);
}

// Above 0.625 it is 1 - 2 / (exp(2x) + 1).
static TENON_INLINE Vec tanh(Vec x) {
  const Vec a = abs(x), large = sub(set1(1.f), div(set1(2.f), add(exp(add(a, a)), set1(1.f))));
  return select_less(a, set1(0.625f), small_tanh(x), bit_or(large, sign_of(x)));
}

// x P(x^2) / Q(x^2), a minimax fit up to 4, where it reaches 1; relative error about 4e-7.
static TENON_INLINE Vec erf(Vec x) {
  const Vec a = min(set1(4.f), max(set1(-4.f), x)), z = mul(a, a);
  Vec p = set1(1.911031721e-08f), q = set1(1.021077794e-03f);
  p = fma(p, z, set1(-1.942256082e-06f));
  q = fma(q, z, set1(1.495787079e-02f));
  p = fma(p, z, set1(1.472817092e-04f));
  q = fma(q, z, set1(1.179698951e-01f));
  p = fma(p, z, set1(3.990457717e-03f));
  q = fma(q, z, set1(5.168894446e-01f));
  p = fma(p, z, set1(5.152459650e-02f));
  q = fma(q, z, set1(1.f));
  p = fma(p, z, set1(2.071232433e-01f));
  p = fma(p, z, set1(1.128379094e+00f));
  return min(set1(1.f), max(set1(-1.f), div(mul(a, p), q)));
}

// sin(x + quarters pi / 2) for 0 <= x < most_of_sine, absolute error about 1e-7: what is left of x behind whole
// quarters of a turn, whose first two parts have so few bits that their products are exact, by polynomials (Cephes
// sinf, cosf).
constexpr float most_of_sine = 8192;
static TENON_INLINE Vec sine(Vec x, float quarters) {
  const Vec n = round(mul(x, set1(0.636619772f)));
  Vec r = fnma(n, set1(1.5703125f), x);
  r = fnma(n, set1(4.837512969970703125e-4f), r);
  r = fnma(n, set1(7.54978995489188216e-8f), r);
  const Vec z = mul(r, r);
  Vec p = set1(-1.9515295891e-4f), q = set1(2.443315711809948e-5f);
  p = fma(p, z, set1(8.3321608736e-3f));
  q = fma(q, z, set1(-1.388731625493765e-3f));
  p = fma(p, z, set1(-1.6666654611e-1f));
  q = fma(q, z, set1(4.166664568298827e-2f));
  p = fma(mul(p, z), r, r);
  q = fma(mul(q, z), z, fnma(set1(0.5f), z, set1(1.f)));
  const Vec all = add(n, set1(quarters)), turn = fnma(set1(4.f), floor(mul(all, set1(0.25f))), all);  // 0 to 3
  const Vec is_even = abs(sub(abs(sub(turn, set1(2.f))), set1(1.f)));                                 // 0 or 1
  const Vec y = select_less(is_even, set1(0.5f), q, p);
  return select_less(set1(1.5f), turn, bit_xor(set1(-0.f), y), y);
}

// exp(x) - 1 for x <= 0, by its series above -0.5.
static TENON_INLINE Vec expm1_negative(Vec x) {
  Vec p = set1(1.f / 5040);
  p = fma(p, x, set1(1.f / 720));
  p = fma(p, x, set1(1.f / 120));
  p = fma(p, x, set1(1.f / 24));
  p = fma(p, x, set1(1.f / 6));
  p = fma(p, x, set1(0.5f));
  const Vec small = fma(mul(p, x), x, x);
  return select_less(x, set1(-0.5f), sub(exp(x), set1(1.f)), small);
}

// log(1 + e^x) for x <= 0: t P(t) / Q(t), a minimax fit, t = e^x.
static TENON_INLINE Vec log1p_exp(Vec x) {
  const Vec t = exp(x);
  Vec p = set1(3.417280350e-03f), q = set1(7.528726212e-02f);
  p = fma(p, t, set1(2.381574658e-01f));
  q = fma(q, t, set1(6.879361706e-01f));
  p = fma(p, t, set1(1.066218353e+00f));
  q = fma(q, t, set1(1.566218223e+00f));
  p = fma(p, t, set1(9.999999991e-01f));
  q = fma(q, t, set1(1.f));
  return div(mul(t, p), q);
}

// log(x) of normal numbers above 0 as a sum of two, the second one smaller than the first one's last bit: what lies
// above a power of two by the series of Cephes logf, its first terms with what they round away.
static TENON_INLINE Vec log(Vec x, Vec& low) {
  const Vec half = set1(0.5f), root = set1(1.41421356f);
  const Vec whole = bit_or(bit_and(x, set1(__builtin_bit_cast(float, 0x007fffff))), set1(1.f)), e = exponent_of(x);
  const Vec m = select_less(root, whole, mul(half, whole), whole), n = select_less(root, whole, add(e, set1(1.f)), e);
  const Vec r = sub(m, set1(1.f)), z = mul(r, r), z_low = fused(r, r, bit_xor(set1(-0.f), z));
  Vec p = set1(7.0376836292e-2f);
  p = fma(p, r, set1(-1.1514610310e-1f));
  p = fma(p, r, set1(1.1676998740e-1f));
  p = fma(p, r, set1(-1.2420140846e-1f));
  p = fma(p, r, set1(1.4249322787e-1f));
  p = fma(p, r, set1(-1.6668057665e-1f));
  p = fma(p, r, set1(2.0000714765e-1f));
  p = fma(p, r, set1(-2.4999993993e-1f));
  p = fma(p, r, set1(3.3333331174e-1f));
  const Vec h = fnma(half, z, r), h_low = sub(sub(r, h), mul(half, z));
  const Vec a = mul(n, set1(0.693359375f)), sum = add(a, h), sum_low = sub(h, sub(sum, a));
  Vec rest = fma(n, set1(-2.12194440e-4f), mul(mul(r, z), p));
  rest = add(rest, add(sum_low, fnma(half, z_low, h_low)));
  const Vec result = add(sum, rest);
  low = sub(rest, sub(result, sum));
  return result;
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
