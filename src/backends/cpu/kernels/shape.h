// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/worker.h"
#include "ops/expression_id.h"

namespace tenon::cpu {

// Where the second input is added, numbered as ops::Residual.
enum class Residual : uint8_t { none, before, after };

struct Epilogue {
  expr::Id act = expr::Id::Identity;
  float alpha = 0, beta = 0;  // its parameters
  Residual residual = Residual::none;
  const float* slopes = nullptr;  // of PRelu and Max, by output channel; in plans they lie as the bias does
};

// NHWC activations, OIHW weights. Strides are in floats and the innermost channel stride is 1; a pixel pitch above
// the channel count makes the tensor a view into a wider one.
struct ConvShape {
  int64_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups;
  int64_t in_image, in_row, in_pixel, out_image, out_row, out_pixel, res_image, res_row, res_pixel;
  // NCHW input, which only "stem" takes: contiguous, its strides ignored, where in_channel is 0, else in_channel floats
  // from one channel to the next, in_row and in_image as of NHWC, pixels side by side.
  bool in_nchw = false;
  int64_t in_channel = 0;
  // Input channels lie in so many slices of as many each, in_slice floats from one to the next; "direct" and Winograd
  // take more than one.
  int64_t slices = 1, in_slice = 0;
  // Where frames around those that there are count as zeros, as "depthwise_rows" takes them: floats from a frame to the
  // next, how many there are, and how many of zeros lie before them; the first image begins with those. 0: all are
  // there.
  int64_t frame = 0, frames = 0, frames_before = 0;
};

using Worker = tenon::Worker;

}  // namespace tenon::cpu
