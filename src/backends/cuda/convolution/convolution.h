// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "backends/cuda/runtime/kernel.h"
#include "ops/epilogue.h"

/// A convolution as the GPU kernels see it: Conv of two spatial axes, and products with constant weights as
/// convolutions of 1x1.
namespace tenon::cuda {

struct ConvShape {
  int64_t batch, in_h, in_w, in_c, out_h, out_w, out_c;
  int kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left, groups;
  // In elements: of an image, a row, a pixel, a channel.
  int64_t x[4], y[4], residual[4];
  DType x_type, y_type;
  int64_t pixels() const { return batch * out_h * out_w; }
  int64_t channels_in() const { return in_c / groups; }  // of a group
  int64_t channels_out() const { return out_c / groups; }
  int64_t depth() const { return channels_in() * kernel_h * kernel_w; }
  /// One tap, and no output reads padding, which may lie at the end alone.
  bool is_point() const {
    return kernel_h * kernel_w == 1 && pad_top == 0 && pad_left == 0 && (out_h - 1) * stride_h < in_h &&
           (out_w - 1) * stride_w < in_w;
  }
  /// Whether pixels of all images of so many rows and columns follow each other at one pitch.
  bool is_pitched(const int64_t (&strides)[4], int64_t height, int64_t width) const {
    return (height == 1 || strides[1] == width * strides[2]) &&
           (batch == 1 || strides[0] == height * width * strides[2]);
  }
};

/// The same of the result and what is added to it.
inline bool is_pitched(const ConvShape& shape, const int64_t (&strides)[4]) {
  return shape.is_pitched(strides, shape.out_h, shape.out_w);
}

/// Fills the shape of a Conv of any types; else the reason why it has none.
Reason conv_geometry(const Problem& problem, ConvShape& shape);
/// The same for convolutions and products of f32 and f16.
Reason conv_shape(const Problem& problem, ConvShape& shape);
ops::Epilogue conv_epilogue(const Problem& problem);
/// Whether there is a tensor to be added.
bool has_residual(const Problem& problem);
/// What a kernel says whose sums hold products by zeros that stand beside the weights: by `--strict` it refuses, as
/// zero times an infinity is no number. Bytes know neither.
Reason refuses_added_zeros(const Problem& problem);
/// Neighbouring channels of the input that one load may bring, at most 16 bytes of them.
int vector_of(const Problem& problem, const ConvShape& shape);
/// Weights as [out_c][kernel_h][kernel_w][channels_in], and the bias (zeros where there is none).
std::vector<float> conv_weights(const Problem& problem, const ConvShape& shape);
std::vector<float> conv_bias(const Problem& problem, const ConvShape& shape);
/// The 16-bit type that an input is rounded to where it is constant weights of convolutions: the type of what they
/// read or, where that is an image in f32, of what they make; DType::undefined: it is not rounded.
DType rounds_weights_to(const Problem& problem, size_t input);

/// Macros of the epilogue: ACT, a type of tenon::expr, RESIDUAL (0 none, 1 before, 2 after the activation).
std::vector<std::string> epilogue_defines(const ops::Epilogue& epilogue);
std::string define(const char* name, int64_t value);
std::string define_expression(const char* name, expr::Id id);
std::string define_type(const char* name, DType type);

/// Bits of a number rounded to f16 or bf16.
uint16_t bits16_of(float value, DType type);

}  // namespace tenon::cuda
