// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

namespace tenon::ops {

/// Rounds weights [out][in][height][width] of a convolution, or [out][in], in f32 each to one of the two numbers of
/// `type` (f16, bf16 or f8e4m3fn) beside it, such that the sums of windows, or of an output's channels where windows
/// are of one pixel, hardly change. Numbers that `type` has stay as they are. `rounded`: f32, of the same sizes.
void round_weights(const Tensor& weights, DType type, Tensor& rounded);

}  // namespace tenon::ops
