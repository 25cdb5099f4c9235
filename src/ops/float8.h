// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/dtype.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

/// The four 8-bit float types of ONNX. "fn" has no infinity; "uz" has one zero, and NaN is its negative zero.
namespace tenon::ops {

inline bool is_float8(DType type) {
  return type == DType::f8e4m3fn || type == DType::f8e4m3fnuz || type == DType::f8e5m2 || type == DType::f8e5m2fnuz;
}

struct Float8Format {
  int mantissa, bias;
  bool unsigned_zero, infinity;
  float largest;
};

inline Float8Format float8_format(DType type) {
  switch (type) {
    case DType::f8e4m3fn: return {3, 7, false, false, 448};
    case DType::f8e4m3fnuz: return {3, 8, true, false, 240};
    case DType::f8e5m2: return {2, 15, false, true, 57344};
    default: return {2, 16, true, false, 57344};
  }
}

inline float f8_value(uint8_t bits, DType type) {
  const Float8Format format = float8_format(type);
  if (format.unsigned_zero && bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = (bits & 0x7f) >> format.mantissa, mantissa = bits & ((1 << format.mantissa) - 1);
  if (type == DType::f8e4m3fn && (bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  float value;
  if (format.infinity && exponent == 31)
    value = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  else if (exponent == 0) value = std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa);
  else
    value = std::ldexp(static_cast<float>(mantissa + (1 << format.mantissa)), exponent - format.bias - format.mantissa);
  return bits & 0x80 ? -value : value;
}

/// Rounded to nearest even. Beyond the range: the largest number where `saturate`, else infinity or NaN.
inline uint8_t f8_bits(float value, DType type, bool saturate) {
  const Float8Format format = float8_format(type);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const uint8_t nan = format.unsigned_zero ? 0x80 : static_cast<uint8_t>(sign | 0x7f);
  if (std::isnan(value)) return nan;
  const int lowest = 1 - format.bias;  // exponent of subnormals
  const float magnitude = std::fabs(value);
  float nearest = magnitude;
  int exponent = lowest;
  if (std::isfinite(magnitude) && magnitude > 0) {
    exponent = std::max(std::ilogb(magnitude), lowest);
    nearest = std::ldexp(std::nearbyint(std::ldexp(magnitude, format.mantissa - exponent)), exponent - format.mantissa);
  }
  if (nearest > format.largest) {
    if (!saturate) return format.infinity ? static_cast<uint8_t>(sign | 0x7c) : nan;
    nearest = format.largest;
  }
  if (nearest == 0) return format.unsigned_zero ? 0 : sign;
  exponent = std::max(std::ilogb(nearest), lowest);
  const int steps = static_cast<int>(std::ldexp(nearest, format.mantissa - exponent));
  // A normal number's leading bit carries into the exponent field, which makes it one higher.
  return static_cast<uint8_t>(sign | (((exponent - lowest) << format.mantissa) + steps));
}

/// Storage of DType::f8e4m3fn; arithmetic goes through float, and what is too large becomes the largest.
struct E4M3 {
  uint8_t bits;
  E4M3() = default;
  explicit E4M3(float value) : bits(f8_bits(value, DType::f8e4m3fn, true)) {}
  operator float() const { return f8_value(bits, DType::f8e4m3fn); }
};

}  // namespace tenon::ops
