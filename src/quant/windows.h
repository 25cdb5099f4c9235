// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "quant/weights.h"

namespace tenon::quant {

/// The inputs that an anchor multiplies its weights with, position by position.
class Windows {
 public:
  /// `sizes` are those of the anchor's input.
  Windows(const ir::Node& anchor, const WeightView& view, const Dims& weights, const Dims& sizes);
  /// Of the output, all images together.
  int64_t positions() const { return positions_; }
  /// The inputs of a position and group, in the order of a row's weights; zeros where the window leaves the input.
  void gather(const float* input, int64_t position, int64_t group, float* to) const;

 private:
  int64_t positions_ = 0, channels_ = 0, taps_ = 1;  // channels of a group
  int64_t height_ = 1, width_ = 1, out_height_ = 1, out_width_ = 1, kernel_width_ = 1;
  int64_t stride_[2] = {1, 1}, dilation_[2] = {1, 1}, begin_[2] = {0, 0};
  int64_t image_step_ = 0, row_step_ = 0, pixel_step_ = 0, channel_step_ = 1;
};

}  // namespace tenon::quant
