// SPDX-License-Identifier: Apache-2.0
#include "quant/windows.h"

#include "quant/observations.h"
#include "quant/structure.h"

namespace tenon::quant {

Windows::Windows(const ir::Node& anchor, const WeightView& view, const Dims& weights, const Dims& sizes)
    : channels_(view.inner / view.taps), taps_(view.taps) {
  if (!is_convolution(anchor)) {
    pixel_step_ = sizes.back();
    positions_ = out_width_ = width_ = sizes.elements() / sizes.back();
    return;
  }
  const bool last = channel_axis(anchor) < 0;
  const size_t rows = last ? 1 : 2;
  const int64_t all = sizes[last ? 3 : 1];
  height_ = sizes[rows], width_ = sizes[rows + 1];
  channel_step_ = last ? 1 : height_ * width_;
  pixel_step_ = last ? all : 1;
  row_step_ = width_ * pixel_step_;
  image_step_ = all * height_ * width_;
  kernel_width_ = weights[3];
  const std::vector<int64_t> strides = anchor.integers("strides", {1, 1}),
                             dilations = anchor.integers("dilations", {1, 1}),
                             pads = anchor.integers("pads", {0, 0, 0, 0});
  const std::string mode = anchor.text("auto_pad", "NOTSET");
  int64_t out[2];
  for (size_t axis = 0; axis < 2; ++axis) {
    stride_[axis] = strides[axis], dilation_[axis] = dilations[axis];
    const int64_t in = axis == 0 ? height_ : width_, extent = (weights[2 + axis] - 1) * dilations[axis] + 1;
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      out[axis] = (in + strides[axis] - 1) / strides[axis];
      const int64_t total = std::max<int64_t>(0, (out[axis] - 1) * strides[axis] + extent - in);
      begin_[axis] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else {
      const bool padded = mode != "VALID";
      begin_[axis] = padded ? pads[axis] : 0;
      out[axis] = (in + (padded ? pads[axis] + pads[axis + 2] : 0) - extent) / strides[axis] + 1;
    }
  }
  out_height_ = out[0], out_width_ = out[1];
  positions_ = sizes[0] * out_height_ * out_width_;
}

void Windows::gather(const float* input, int64_t position, int64_t group, float* to) const {
  const int64_t image = position / (out_height_ * out_width_), row = position / out_width_ % out_height_,
                column = position % out_width_;
  input += image * image_step_ + group * channels_ * channel_step_;
  for (int64_t tap = 0; tap < taps_; ++tap) {
    const int64_t y = row * stride_[0] - begin_[0] + tap / kernel_width_ * dilation_[0];
    const int64_t x = column * stride_[1] - begin_[1] + tap % kernel_width_ * dilation_[1];
    const bool inside = y >= 0 && y < height_ && x >= 0 && x < width_;
    const float* from = input + y * row_step_ + x * pixel_step_;
    for (int64_t channel = 0; channel < channels_; ++channel)
      to[channel * taps_ + tap] = inside ? from[channel * channel_step_] : 0;
  }
}

}  // namespace tenon::quant
