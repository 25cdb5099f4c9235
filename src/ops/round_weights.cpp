#include "ops/round_weights.h"

#include "ops/float8.h"
#include "ops/half.h"
#include "ops/keep_sum.h"

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

template <class Type>
float nearest(float value) {
  return Type::value(Type::bits(value));
}

/// The number on the other side of `value` than the one that is nearest to it.
template <class Type>
float other_side(float value) {
  const auto bits = Type::bits(value);
  const bool beyond = std::abs(Type::value(bits)) > std::abs(value);
  return std::copysign(Type::value(static_cast<decltype(bits)>(beyond ? bits - 1 : bits + 1)), value);
}

template <class Type>
void round_row(const float* weights, int64_t count, float* rounded) {
  for (int64_t at = 0; at < count; ++at) rounded[at] = nearest<Type>(weights[at]);
  keep_sum(weights, count, rounded, other_side<Type>);
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
