#include "ops/round_weights.h"

#include <algorithm>
#include <cmath>

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

/// The number on the other side of `weight` than the one with `bits`, which is nearest to it.
template <class Type>
float other_side(float weight, uint16_t bits) {
  const bool beyond = std::abs(Type::value(bits)) > std::abs(weight);
  const float other = Type::value(static_cast<uint16_t>(beyond ? bits - 1 : bits + 1));
  return std::copysign(other, weight);
}

/// The sum is kept by those that are at least so far from what they were rounded to, in units of what they would be
/// turned by: the farthest err least more when they are turned.
constexpr float distances[] = {0.3f, 0};
/// What may remain of the sum of errors, in units of the largest of them.
constexpr double near_enough = 0.5;

template <class Type>
void round_row(const float* weights, int64_t count, float* rounded) {
  double sum = 0;  // of all errors
  float largest = 0;
  for (int64_t at = 0; at < count; ++at) {
    rounded[at] = Type::value(Type::bits(weights[at]));
    const float error = rounded[at] - weights[at];  // exact
    sum += error;
    largest = std::max(largest, std::abs(error));
  }
  const double enough = largest * near_enough;
  for (const float distance : distances)
    for (int64_t at = 0; at < count; ++at) {
      if (!(std::abs(sum) > enough)) return;
      const float error = rounded[at] - weights[at];
      if (error * sum <= 0) continue;
      const float other = other_side<Type>(weights[at], Type::bits(weights[at]));
      const float turn = other - rounded[at];
      // Turned already, too near, or further from the sum than before.
      if (error * turn >= 0 || std::abs(error) < distance * std::abs(turn) || std::abs(turn) >= 2 * std::abs(sum))
        continue;
      rounded[at] = other;
      sum += turn;
    }
}

}  // namespace

void round_weights(const Tensor& weights, DType type, Tensor& rounded) {
  int64_t window = 1;
  for (size_t axis = 2; axis < weights.dims().rank(); ++axis) window *= weights.dims()[axis];
  const int64_t row = window > 1 ? window : weights.elements() / std::max<int64_t>(weights.dims()[0], 1);
  const auto round = type == DType::bf16 ? round_row<Bf16> : round_row<F16>;
  for (int64_t at = 0; at + row <= weights.elements() && row > 0; at += row)
    round(weights.data<float>() + at, row, rounded.data<float>() + at);
}

}  // namespace tenon::ops
