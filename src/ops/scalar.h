// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/dispatch.h"

/// Functions of one element, for T float or double; shared by the operations and by fused programs.
namespace tenon::ops::scalar {

template <class T> T shrink(T x, T bias, T lambd) { return x < -lambd ? x + bias : x > lambd ? x - bias : T(0); }

/// The larger and the smaller of two; NaN where either is NaN.
template <class T> T maximum(T a, T b) { return a != a ? a : b != b ? b : a < b ? b : a; }
template <class T> T minimum(T a, T b) { return a != a ? a : b != b ? b : b < a ? b : a; }

/// Integer arithmetic that wraps, without undefined behaviour; plain arithmetic for floats.
template <class T> T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else return a + b;
}
template <class T> T sub(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else return a - b;
}
template <class T> T mul(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else return a * b;
}
/// Division towards zero for integers; `b` must not be an integer 0.
template <class T> T div(T a, T b) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    if (b == -1) return sub(T(0), a);
  return static_cast<T>(a / b);
}

/// A real number as an element of type O: towards zero, held inside O's range, NaN as 0.
template <class O, class T> O convert(T value) {
  if constexpr (std::is_same_v<O, Bool>) return Bool(value != T(0));
  else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<O>) {
    // 2^digits is exact in T, unlike the largest integer.
    constexpr T limit = static_cast<T>(std::numeric_limits<O>::max() / 2 + 1) * 2;
    if (value != value) return 0;
    if (value >= limit) return std::numeric_limits<O>::max();
    if (value < static_cast<T>(std::numeric_limits<O>::min())) return std::numeric_limits<O>::min();
    return static_cast<O>(value);
  } else return static_cast<O>(value);
}

}  // namespace tenon::ops::scalar
