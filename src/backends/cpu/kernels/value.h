// SPDX-License-Identifier: Apache-2.0
// Vectors as the numbers of expressions (ops/expression_math.h).
#pragma once

#include "backends/cpu/kernels/vecmath.h"
#include "ops/expression_math.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Of this file alone: formulas over it are compiled anew for each instruction set and way of rounding.
struct Value {
  Vec v;

  explicit TENON_INLINE Value(Vec vector) : v(vector) {}
  template <expr::Scalar T>
  explicit TENON_INLINE Value(T number) : v(set1((float)number)) {}

  friend TENON_INLINE Value operator+(Value a, Value b) { return Value(add(a.v, b.v)); }
  friend TENON_INLINE Value operator-(Value a, Value b) { return Value(sub(a.v, b.v)); }
  friend TENON_INLINE Value operator*(Value a, Value b) { return Value(mul(a.v, b.v)); }
  friend TENON_INLINE Value operator/(Value a, Value b) { return Value(div(a.v, b.v)); }
  friend TENON_INLINE Value operator-(Value x) { return Value(bit_xor(set1(-0.f), x.v)); }

  struct Less {
    Vec a, b;
  };
  friend TENON_INLINE Less operator<(Value a, Value b) { return {a.v, b.v}; }
  friend TENON_INLINE Less operator>(Value a, Value b) { return {b.v, a.v}; }
  friend TENON_INLINE Value select(Less condition, Value yes, Value no) {
    return Value(select_less(condition.a, condition.b, yes.v, no.v));
  }

  friend TENON_INLINE Value min(Value bound, Value x) { return Value(min(bound.v, x.v)); }
  friend TENON_INLINE Value max(Value bound, Value x) { return Value(max(bound.v, x.v)); }
  friend TENON_INLINE Value minimum(Value a, Value b) { return Value(nan_or(a.v, min(a.v, b.v))); }
  friend TENON_INLINE Value maximum(Value a, Value b) { return Value(nan_or(a.v, max(a.v, b.v))); }
  friend TENON_INLINE Value mul_add(Value a, Value b, Value c) { return Value(fma(a.v, b.v, c.v)); }

  friend TENON_INLINE Value abs(Value x) { return Value(abs(x.v)); }
  friend TENON_INLINE Value sqrt(Value x) { return Value(sqrt(x.v)); }
  friend TENON_INLINE Value floor(Value x) { return Value(floor(x.v)); }
  friend TENON_INLINE Value ceil(Value x) { return Value(ceil(x.v)); }
  friend TENON_INLINE Value round(Value x) { return Value(round(x.v)); }
  friend TENON_INLINE Value exp(Value x) { return Value(exp(x.v)); }
  friend TENON_INLINE Value tanh(Value x) { return Value(tanh(x.v)); }
  friend TENON_INLINE Value erf(Value x) { return Value(erf(x.v)); }
  friend TENON_INLINE Value expm1_negative(Value x) { return Value(expm1_negative(min(zero(), x.v))); }
  friend TENON_INLINE Value scaled_sigmoid(Value a, Value x) {
    return Value(div(a.v, add(set1(1.f), exp(bit_xor(set1(-0.f), x.v)))));
  }

  // A product with 1 / step rounds as the quotient does where it is not near halfway: three roundings err by 1.8e-7 of
  // it. What is near, or no number, is divided. Steps are from 1e-30 to 1e30, bounds within 2^22.
  friend TENON_INLINE Value steps_within(Value x, Value step, Value low, Value high) {
    const Vec whole = set1(12582912.f), inverse = div(set1(1.f), step.v);
    const Vec near = min(high.v, max(low.v, mul(x.v, inverse))), n = sub(add(near, whole), whole);
    const Vec far = abs(sub(near, n)), size = abs(near);
    if (all_less(add(far, mul(size, set1(1.8e-7f))), set1(0.5f))) [[likely]]
      return Value(n);
    const Vec steps = min(high.v, max(low.v, div(x.v, step.v)));  // NaN is less than nothing
    return Value(sub(add(select_less(abs(steps), set1(4e6f), steps, zero()), whole), whole));
  }

  // The C library takes what vectors do not: a number's result does not depend on those beside it.
  friend TENON_INLINE Value sin(Value x) {
    const Vec a = abs(x.v), y = bit_xor(sine(a, 0), sign_of(x.v));
    if (all_less(a, set1(most_of_sine))) [[likely]]
      return Value(y);
    const Value exact = x.each([](float one) { return expr::sin(one); });
    return Value(select_less(a, set1(most_of_sine), y, exact.v));
  }
  friend TENON_INLINE Value cos(Value x) {
    const Vec a = abs(x.v), y = sine(a, 1);
    if (all_less(a, set1(most_of_sine))) [[likely]]
      return Value(y);
    const Value exact = x.each([](float one) { return expr::cos(one); });
    return Value(select_less(a, set1(most_of_sine), y, exact.v));
  }

  friend TENON_INLINE Value log1p_exp(Value x) { return Value(log1p_exp(min(zero(), x.v))); }
  friend TENON_INLINE Value log(Value x) {
    Vec low;
    const Vec y = log(x.v, low), ok = is_normal(x.v);
    if (all_less(set1(0.5f), ok)) [[likely]]
      return Value(y);
    const Value exact = x.each([](float one) { return expr::log(one); });
    return Value(select_less(set1(0.5f), ok, y, exact.v));
  }
  // e^(b log a), the exponent with what its product rounds away; squares and roots as the formula has them.
  friend TENON_INLINE Value pow(Value a, Value b) {
    constexpr float most = 87, tiny = 1e-30f;
    Vec low;
    const Vec high = log(a.v, low), t = mul(b.v, high);
    const Vec t_low = fma(b.v, low, fused(b.v, high, bit_xor(set1(-0.f), t))), e = exp(t);
    Vec y = fma(e, t_low, e), ok = select_less(abs(t), set1(most), is_normal(a.v), zero());
    const Vec from_two = abs(sub(b.v, set1(2.f))), from_half = abs(sub(b.v, set1(0.5f)));
    y = select_less(from_half, set1(tiny), sqrt(a.v), select_less(from_two, set1(tiny), mul(a.v, a.v), y));
    ok = select_less(from_two, set1(tiny), set1(1.f), ok);
    if (all_less(set1(0.5f), ok)) [[likely]]
      return Value(y);
    alignas(64) float base[kLanes], exponent[kLanes];
    store(base, a.v);
    store(exponent, b.v);
    for (int i = 0; i < kLanes; ++i) base[i] = expr::pow(base[i], exponent[i]);
    return Value(select_less(set1(0.5f), ok, y, load(base)));
  }

 private:
  // 1 where a number is normal and above 0, else 0.
  static TENON_INLINE Vec is_normal(Vec x) {
    return select_less(x, set1(1.17549435e-38f), zero(), select_less(x, set1(__builtin_inff()), set1(1.f), zero()));
  }
  template <class F>
  TENON_INLINE Value each(F f) const {
    alignas(64) float lanes[kLanes];
    store(lanes, v);
    for (int i = 0; i < kLanes; ++i) lanes[i] = f(lanes[i]);
    return Value(load(lanes));
  }
};

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
