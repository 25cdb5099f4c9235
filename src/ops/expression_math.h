// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What the formulas of ops/expressions are written in. A formula takes any type V of numbers that has these functions,
/// found beside V; V alone decides whether they are exact, approximate or of many lanes:
///   + - * / and - of one; < and > for select(condition, yes, no)
///   min(bound, x), max(bound, x): x where x is NaN; minimum(a, b), maximum(a, b): NaN where either is
///   mul_add(a, b, c): a b + c, rounded once or twice as V does it
///   abs, sqrt, floor, ceil, round (to nearest even), exp, log, sin, cos, tanh, erf, pow(a, b)
///   expm1_negative(x): e^x - 1, and log1p_exp(x): log(1 + e^x), both for x <= 0
///   scaled_sigmoid(a, x): a / (1 + e^-x)
///   steps_within(x, step, low, high): x / step, rounded once, to nearest even and to within whole numbers; 0 for NaN
/// Three compilers read this and the formulas: for floats and doubles (here), for vectors (cpu/kernels/value.h), and
/// NVRTC as text without its includes (cuda/kernels/expressions.cuh).
#if defined(__CUDACC_RTC__)
#define TENON_EXPR __device__ __forceinline__
#else
#include <type_traits>
#define TENON_EXPR inline __attribute__((always_inline))
#endif

namespace tenon::expr {

constexpr float infinity = __builtin_bit_cast(float, 0x7f800000);

/// A number that the op's attribute gives.
struct Parameter {
  const char* attribute;
  float otherwise;
};
struct Parameters {
  int count = 0;
  Parameter list[2] = {};
};

/// What a formula says of itself, with what holds of most.
struct Unary {
  static constexpr int operands = 1;
  static constexpr Parameters parameters{};
  /// Convolutions and products may apply it to their sums before they store them. Where it takes two operands, the
  /// second is a number for each channel.
  static constexpr bool is_epilogue = false;
  /// It is bounds and nothing else, or not even these.
  static constexpr bool is_clamp = false;
  /// It is rounded as it is written, on every device and in every mode.
  static constexpr bool is_exact = false;
};
struct Binary : Unary {
  static constexpr int operands = 2;
};
struct Activation : Unary {
  static constexpr bool is_epilogue = true;
};

/// A formula of one operand with as many parameters as it takes. `alpha` is the second operand of a formula of two.
template <class E, class V>
TENON_EXPR V apply(V x, V alpha, V beta) {
  if constexpr (E::operands == 2) return E::apply(x, alpha);
  else if constexpr (E::parameters.count == 0) return E::apply(x);
  else if constexpr (E::parameters.count == 1) return E::apply(x, alpha);
  else return E::apply(x, alpha, beta);
}

#if !defined(__CUDACC_RTC__)

template <class T>
concept Scalar = std::is_arithmetic_v<T>;

template <Scalar T> TENON_EXPR T select(bool condition, T yes, T no) { return condition ? yes : no; }
template <Scalar T> TENON_EXPR T min(T bound, T x) { return bound < x ? bound : x; }
template <Scalar T> TENON_EXPR T max(T bound, T x) { return bound > x ? bound : x; }
template <Scalar T> TENON_EXPR T minimum(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }
template <Scalar T> TENON_EXPR T maximum(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }
template <Scalar T> TENON_EXPR T mul_add(T a, T b, T c) { return a * b + c; }

// Builtins, not <cmath>: copies of its functions may come from a file of another instruction set.
#define TENON_FUNCTION(name, builtin)                                  \
  TENON_EXPR float name(float x) { return __builtin_##builtin##f(x); } \
  TENON_EXPR double name(double x) { return __builtin_##builtin(x); }
TENON_FUNCTION(abs, fabs)
TENON_FUNCTION(sqrt, sqrt)
TENON_FUNCTION(floor, floor)
TENON_FUNCTION(ceil, ceil)
TENON_FUNCTION(round, nearbyint)
TENON_FUNCTION(exp, exp)
TENON_FUNCTION(log, log)
TENON_FUNCTION(log1p, log1p)
TENON_FUNCTION(sin, sin)
TENON_FUNCTION(cos, cos)
TENON_FUNCTION(tanh, tanh)
TENON_FUNCTION(erf, erf)
TENON_FUNCTION(expm1_negative, expm1)
#undef TENON_FUNCTION

template <Scalar T> TENON_EXPR T log1p_exp(T x) { return log1p(exp(x)); }
template <Scalar T> TENON_EXPR T scaled_sigmoid(T a, T x) { return a / (T(1) + exp(-x)); }
template <Scalar T>
TENON_EXPR T steps_within(T x, T step, T low, T high) {
  const T steps = min(high, max(low, x / step));
  return steps == steps ? round(steps) + T(0) : T(0);  // 0 has no sign
}
TENON_EXPR float power(float a, float b) { return __builtin_powf(a, b); }
TENON_EXPR double power(double a, double b) { return __builtin_pow(a, b); }
template <Scalar T> TENON_EXPR T pow(T a, T b) {
  return b == T(2) ? a * a : b == T(0.5) && a >= T(0) ? sqrt(a) : power(a, b);
}

#endif

}  // namespace tenon::expr
