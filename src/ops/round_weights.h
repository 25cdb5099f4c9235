#pragma once
#include <tenon/tensor.h>

namespace tenon::ops {

/// Rounds weights [out][in][height][width] of a convolution, or [out][in], in f32 each to one of the two numbers of
/// `type` (f16 or bf16) beside it, such that the sum of a window hardly changes, or the sum over an output's channels
/// where windows are of one pixel. What a window sees is mostly alike, so it is the sum of its errors that reaches the
/// result. All are rounded to nearest first; then those nearest to the middle are rounded the other way while that
/// brings the sum closer to what it was. Numbers that `type` has stay as they are. `rounded`: f32, of the same sizes.
void round_weights(const Tensor& weights, DType type, Tensor& rounded);

}  // namespace tenon::ops
