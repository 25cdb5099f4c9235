// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

/// Numbers of few bits as PTX rounds them.
namespace tenon::ptx_emulator {

#ifndef TENON_ISA_NAMESPACE
#define TENON_ISA_NAMESPACE portable
#endif
inline namespace TENON_ISA_NAMESPACE {

enum class Rounding { nearest, away, zero, down, up };

struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;
};
constexpr Format f16_format{5, 10, true}, bf16_format{8, 7, true}, e4m3_format{4, 3, false}, e5m2_format{5, 2, true};

/// To the integer on the side that the rounding says; x is of any size.
inline double to_integer(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest: return std::nearbyint(x);
    case Rounding::away: return std::round(x);
    case Rounding::zero: return std::trunc(x);
    case Rounding::down: return std::floor(x);
    default: return std::ceil(x);
  }
}

/// The bits of x in a format. What lies beyond the largest becomes infinity, or with `saturates` the largest; a format
/// without infinity has NaN for it.
inline uint32_t float16_bits(double x, const Format& format, Rounding rounding, bool saturates) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1, mantissa = format.mantissa_bits;
  const uint32_t sign = static_cast<uint32_t>(std::signbit(x)) << (format.exponent_bits + mantissa);
  const uint32_t exponents = ((1u << format.exponent_bits) - 1) << mantissa;
  const uint32_t infinity = exponents;
  const uint32_t largest = format.has_infinity ? infinity - 1 : (exponents | ((1u << mantissa) - 1)) - 1;
  if (std::isnan(x)) return format.exponent_bits == 5 && mantissa == 2 ? 0x7f : (exponents | ((1u << mantissa) - 1));
  const double size = std::abs(x);
  if (size == 0) return sign;
  const bool toward_zero = rounding == Rounding::zero || rounding == (sign ? Rounding::up : Rounding::down);
  const uint32_t beyond = saturates || (toward_zero && std::isfinite(x)) ? largest
                          : format.has_infinity                          ? infinity
                                                                         : largest + 1;
  if (!std::isfinite(x)) return sign | beyond;
  const int exponent = std::max(std::ilogb(size), 1 - bias);
  const double steps = to_integer(std::ldexp(x, mantissa - exponent), rounding);
  // A mantissa that has grown by a bit moves into the exponent by itself.
  const auto count = static_cast<int64_t>(std::abs(steps));
  const int64_t bits = count + (int64_t{exponent + bias - 1} << mantissa);
  return sign | (bits > static_cast<int64_t>(largest) ? beyond : static_cast<uint32_t>(bits));
}

inline double value_of(uint32_t bits, const Format& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1, mantissa = format.mantissa_bits;
  const uint32_t fraction = bits & ((1u << mantissa) - 1);
  const int exponent = static_cast<int>(bits >> mantissa) & ((1 << format.exponent_bits) - 1);
  const double sign = bits >> (format.exponent_bits + mantissa) & 1 ? -1 : 1;
  const bool is_top = exponent == (1 << format.exponent_bits) - 1;
  if (is_top && format.has_infinity)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (is_top && fraction == (1u << mantissa) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1u << mantissa), exponent - bias - mantissa);
}

/// Without branches, for loops over lanes.
inline float f16_value(uint16_t bits) {
  const uint32_t body = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>(body) * 0x1p112f;
  const uint32_t top = body >= 0x0f800000u ? 0x7f800000u | body : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(top | sign);
}
inline float bf16_value(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

/// To nearest, ties to even; NaN is 0x7fff.
inline uint16_t f16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000u, body = bits & 0x7fffffffu;
  // Below 2^-14 the sum's last bit is that of the smallest f16; above, the bits that go are rounded by an addition.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(body) + 0.5f) - 0x3f000000u;
  const uint32_t usual = (body - 0x38000000u + 0xfffu + (body >> 13 & 1u)) >> 13;
  uint32_t result = body < 0x38800000u ? small : usual;
  result = body >= 0x47800000u ? 0x7c00u : result;
  result = body > 0x7f800000u ? 0x7fffu : result;
  return static_cast<uint16_t>(body > 0x7f800000u ? 0x7fffu : result | sign);
}
inline uint16_t bf16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>(x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// The sum of two numbers with its last bit set where it is not exact, so that rounding it again is rounding once.
template <class T, class Bits>
inline T odd_sum_as(T a, T b) {
  const T sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
  const Bits bits = std::bit_cast<Bits>(sum), grown = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
  const bool is_moved = (error > 0 || error < 0) && !(bits & 1);
  return std::bit_cast<T>(is_moved ? grown : bits);
}
inline float odd_sum(float a, float b) { return odd_sum_as<float, uint32_t>(a, b); }
inline double odd_sum(double a, double b) { return odd_sum_as<double, uint64_t>(a, b); }

/// The f32 on the side of a number that is known by itself and the sign of what it lacks.
inline float f32_of(double x, Rounding rounding) {
  const auto nearest = static_cast<float>(x);
  if (rounding == Rounding::nearest || std::isnan(nearest)) return nearest;
  const bool down = rounding == Rounding::down || (rounding == Rounding::zero && x > 0);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (down && nearest > x) return std::nextafter(nearest, -infinity);
  if (!down && nearest < x) return std::nextafter(nearest, infinity);
  return nearest;
}

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::ptx_emulator
