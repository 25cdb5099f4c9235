// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/common/int8_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "ops/op.h"

/// The internal ops Int8Conv (ops/int8_conv.cpp) and Float8Conv (ops/float8_conv.cpp) as the GPU kernels see them.
namespace tenon::cuda {

struct Int8Conv {
  ConvShape shape;
  ops::Epilogue epilogue;
  std::vector<float> scale, bias;  // by channel; the bias is 0 where there is none
  float x_scale = 0;
  int x_zero = 0, y_zero = 0, r_zero = 0;
  float inverse = 0, r_scale = 0;
  std::vector<float> inverses, r_scales;  // by channel where either is; else empty
  bool quantises = false;                 // else the result is f32 or f16
  bool is_float8 = false;                 // e4m3 by e4m3, all zero points 0
  bool strict = false;                    // with the CPU's bits whatever the activation
  bool in_steps = false;  // ops/int8_steps.h: scale, bias, what is of the residual and the clip's ends are in steps
  bool has_residual() const { return epilogue.residual != ops::Residual::none; }
  /// Whether a tap can lie outside of the input while the zero point is not 0.
  bool has_borders() const;
};

/// Where the scale and the zero point of the input stand among those of the node.
constexpr size_t x_scale_at = 4, x_zero_at = 5;
/// Whether either is known only when it runs, as of DynamicQuantizeLinear; few kernels can do with that.
bool has_dynamic_scale(const Problem& problem);
/// Fills the convolution; else the reason why the node is none. Inputs may be u8, or f32 that are quantised on the way.
/// Where they are dynamic, the input's scale is 1 and its zero point 0.
Reason int8_conv(const Problem& problem, Int8Conv& conv, bool dynamic = false);
/// Without scales: for questions of shape.
Reason int8_shape(const Problem& problem, ConvShape& shape, bool dynamic = false);
/// Whether the result or the residual has a scale for each channel.
bool has_listed_scales(const Problem& problem);
inline bool is_int8(const Problem& problem) { return ops::has_trait(problem.node->op, ops::Trait::quantised); }
inline bool is_float8(const Problem& problem) {
  return is_int8(problem) && problem.inputs[1].dtype == DType::f8e4m3fn;
}
/// int8_shape or conv_shape.
inline Reason any_conv_shape(const Problem& problem, ConvShape& shape) {
  return is_int8(problem) ? int8_shape(problem, shape) : conv_shape(problem, shape);
}
/// [out_c][kernel_h][kernel_w][channels_in], e4m3 by its bits.
std::vector<int8_t> int8_weights(const Problem& problem, const ConvShape& shape);
/// -x_zero * sum of each channel's weights.
std::vector<int32_t> zero_sums(const Int8Conv& conv, const std::vector<int8_t>& weights);

/// Whether the activation is approximate, so that results may lie a step beside the CPU's.
inline bool is_loose(const Int8Conv& conv) {
  return !ops::expression(conv.epilogue.activation).is_clamp && !conv.strict;
}

Finish finish_of(const Int8Conv& conv);
/// The lists for kernels, each of `width` numbers.
std::vector<uint32_t> numbers_of(const Int8Conv& conv, const std::vector<int32_t>& zero_sums, int64_t width);
/// Where they are once these numbers lie at an address.
Lists lists_at(Address numbers, int64_t width);
/// Macros ACT, RESIDUAL, STRICT, LISTED, YZ, FP8, IN_STEPS.
std::vector<std::string> int8_defines(const Int8Conv& conv);
/// u8 for all bytes, else the type itself: for kernels that move bytes and leave their meaning to int8.cuh.
std::string define_bytes(const char* name, DType type);
/// Kernel files behind int8.cuh.
Source byte_source(const std::vector<std::string>& files, std::vector<std::string> defines);

/// What zero points add to sums where taps lie outside: by class of the output's row and column, class 0 being the
/// inside. Class of a pixel: rows[y] + columns[x].
struct Borders {
  std::vector<uint8_t> rows, columns;
  std::vector<int32_t> sums;  // [class][channels]
};
/// False where there are too many classes.
bool borders_of(const Int8Conv& conv, const std::vector<int8_t>& weights, int64_t channels, Borders& borders);
/// Whether it would be true; needs no weights.
bool has_few_borders(const ConvShape& shape);

}  // namespace tenon::cuda
