// SPDX-License-Identifier: Apache-2.0
#include "ops/round_weights.h"

#include <algorithm>
#include <cmath>

#include "ops/float8.h"
#include "ops/half.h"

namespace tenon::ops {
namespace {

struct F16 {
  static uint16_t bits(float value) { return f16_bits(value); }
  static float value(uint16_t bits) { return f16_value(bits); }
};
struct Bf16 {
  static uint16_t bits(float value) { return bf16_bits(value); }
  static float value(uint16_t bits) { return bf16_value(bits); }
};
struct E4m3 {
  static uint8_t bits(float value) { return f8_bits(value, DType::f8e4m3fn, false); }
  static float value(uint8_t bits) { return f8_value(bits, DType::f8e4m3fn); }
};

/// The number on the other side of `value` than the one that is nearest to it; infinite or NaN where there is none.
template <class Type>
float other_side(float value) {
  const auto bits = Type::bits(value);
  const bool beyond = std::abs(Type::value(bits)) > std::abs(value);
  return std::copysign(Type::value(static_cast<decltype(bits)>(beyond ? bits - 1 : bits + 1)), value);
}

/// Rounds to nearest, then turns those nearest to the middle between two numbers the other way while that brings the
/// sum closer to what it was. Where weights multiply values that are alike, as in a window, it is the sum of their
/// errors that reaches the result.
template <class Type>
void round_row(const float* weights, int64_t count, float* rounded) {
  // First those that are at least so far from what they were rounded to, in units of what they would be turned by: the
  // farthest err least more when they are turned.
  constexpr float distances[] = {0.3f, 0};
  // What may remain of the sum of errors, in units of the largest of them.
  constexpr double near_enough = 0.5;
  double sum = 0;
  float largest = 0;
  for (int64_t at = 0; at < count; ++at) {
    rounded[at] = Type::value(Type::bits(weights[at]));
    const float error = rounded[at] - weights[at];
    sum += error;
    largest = std::max(largest, std::abs(error));
  }
  for (const float distance : distances)
    for (int64_t at = 0; at < count; ++at) {
      if (!(std::abs(sum) > largest * near_enough)) return;
      const float error = rounded[at] - weights[at];
      if (error * sum <= 0) continue;
      const float beyond = other_side<Type>(weights[at]), turn = beyond - rounded[at];
      const bool turned = error * turn >= 0, near = std::abs(error) < distance * std::abs(turn);
      if (turned || near || !(std::abs(turn) < 2 * std::abs(sum))) continue;
      rounded[at] = beyond;
      sum += turn;
    }
}

}  // namespace

void round_weights(const Tensor& weights, DType type, Tensor& rounded) {
  int64_t window = 1;
  for (size_t axis = 2; axis < weights.dims().rank(); ++axis) window *= weights.dims()[axis];
  const int64_t row = window > 1 ? window : weights.elements() / std::max<int64_t>(weights.dims()[0], 1);
  const auto round = type == DType::f8e4m3fn ? round_row<E4m3> : type == DType::bf16 ? round_row<Bf16> : round_row<F16>;
  for (int64_t at = 0; at + row <= weights.elements() && row > 0; at += row)
    round(weights.data<float>() + at, row, rounded.data<float>() + at);
}

}  // namespace tenon::ops
