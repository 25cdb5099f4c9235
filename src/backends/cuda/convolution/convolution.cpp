// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/convolution.h"

#include <algorithm>

#include "ops/half.h"
#include "ops/op.h"

namespace tenon::cuda {
namespace {

bool is_product(const Problem& problem) { return !ops::has_trait(problem.node->op, ops::Trait::convolution); }

Reason check_size(const Problem& problem, const ConvShape& shape) {
  if (shape.pixels() * std::max(shape.out_c, shape.depth()) == 0) return Reason::empty;
  if (shape.pixels() >= int64_t{1} << 31 || problem.inputs[0].dims.elements() >= int64_t{1} << 40)
    return Reason::too_large;
  return {};
}

/// Sizes and strides as image, row, pixel, channel.
void fill(const Operand& operand, bool channels_last, int64_t (&sizes)[4], int64_t (&strides)[4]) {
  static constexpr int first[] = {0, 2, 3, 1}, order[] = {0, 1, 2, 3};
  for (size_t at = 0; at < 4; ++at) {
    const auto axis = static_cast<size_t>(channels_last ? order[at] : first[at]);
    sizes[at] = operand.dims[axis], strides[at] = operand.strides[axis];
  }
  // An image of one pixel is as far from the next as the pixel.
  if (channels_last && sizes[1] == 1 && sizes[2] == 1) strides[1] = strides[2] = strides[0];
}

/// Gemm and MatMul of one matrix by constant weights: a row is a pixel.
Reason product_shape(const Problem& problem, ConvShape& shape) {
  const ir::Node& node = *problem.node;
  const Operand &a = problem.inputs[0], &b = problem.inputs[1], &y = problem.outputs[0];
  if (node.has("slopes")) return {Reason::activation, "one without slopes"};
  if (!b.constant) return {Reason::not_constant, "the weights"};
  if (b.dims.rank() != 2 || a.dims.rank() < 2) return {Reason::shape, "the right operand", "two axes"};
  if (!a.dense() || !y.dense()) return {Reason::not_contiguous, "rows"};
  const bool gemm = ops::has_trait(node.op, ops::Trait::general_product);
  if (gemm && node.integer("transA", 0)) return {Reason::attribute, "transA", "0"};
  if (gemm && (node.real("alpha", 1) != 1 || node.real("beta", 1) != 1))
    return {Reason::attribute, "alpha and beta", "1"};
  const int64_t k = a.dims.back(), n = y.dims.back();
  if (problem.inputs.size() > 2 && problem.inputs[2]) {
    const Operand& c = problem.inputs[2];
    if (!c.constant || c.dtype != DType::f32) return {Reason::not_constant, "the bias"};
    if (c.dims.elements() != 1 && (c.dims.elements() != n || c.dims.back() != n))
      return {Reason::shape, "the bias", "one entry for each column"};
  }
  shape = {};
  shape.batch = shape.in_h = shape.out_h = 1;
  shape.in_w = shape.out_w = k ? a.dims.elements() / k : 0;
  shape.in_c = k, shape.out_c = n;
  shape.kernel_h = shape.kernel_w = shape.stride_h = shape.stride_w = shape.dilation_h = shape.dilation_w = 1;
  shape.groups = 1;
  const auto rows = [&](int64_t(&strides)[4], int64_t width) {
    strides[0] = strides[1] = shape.in_w * width, strides[2] = width, strides[3] = 1;
  };
  rows(shape.x, k), rows(shape.y, n);
  if (problem.inputs.size() > 3 && problem.inputs[3]) {
    if (!(problem.inputs[3].dims == y.dims)) return {Reason::broadcast, "the residual"};
    if (!problem.inputs[3].dense()) return {Reason::not_contiguous, "rows"};
    rows(shape.residual, n);
  }
  return {};
}

}  // namespace

Reason conv_geometry(const Problem& problem, ConvShape& shape) {
  const ir::Node& node = *problem.node;
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (node.has("slopes")) return {Reason::activation, "one without slopes"};
  if (x.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
  if (w.dims.elements() == 0) return Reason::empty;
  const Operand* bias = problem.inputs.size() > 2 && problem.inputs[2] ? &problem.inputs[2] : nullptr;
  if (bias && (!bias->constant || bias->dtype != DType::f32)) return {Reason::not_constant, "the bias"};
  const bool last = node.text("layout", "") == "NHWC";
  const bool x_last = last && node.text("input_layout", "") != "NCHW";
  int64_t in[4], out[4], ignored[4];
  shape = {};
  fill(x, x_last, in, shape.x);
  fill(y, last, out, shape.y);
  shape.batch = in[0], shape.in_h = in[1], shape.in_w = in[2], shape.in_c = in[3];
  shape.out_h = out[1], shape.out_w = out[2], shape.out_c = out[3];
  shape.kernel_h = static_cast<int>(w.dims[2]), shape.kernel_w = static_cast<int>(w.dims[3]);
  const auto strides = node.integers("strides", {1, 1}), dilations = node.integers("dilations", {1, 1});
  auto pads = node.integers("pads", {0, 0, 0, 0});
  shape.stride_h = static_cast<int>(strides[0]), shape.stride_w = static_cast<int>(strides[1]);
  shape.dilation_h = static_cast<int>(dilations[0]), shape.dilation_w = static_cast<int>(dilations[1]);
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode == "VALID") pads = {0, 0, 0, 0};
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER")
    for (size_t axis = 0; axis < 2; ++axis) {
      const int64_t extent = (w.dims[axis + 2] - 1) * dilations[axis] + 1;
      const int64_t total = std::max<int64_t>(0, (out[axis + 1] - 1) * strides[axis] + extent - in[axis + 1]);
      pads[axis] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
  shape.pad_top = static_cast<int>(pads[0]), shape.pad_left = static_cast<int>(pads[1]);
  shape.groups = static_cast<int>(node.integer("group", 1));
  std::fill(std::begin(shape.residual), std::end(shape.residual), 0);
  if (problem.inputs.size() > 3 && problem.inputs[3]) {
    if (!(problem.inputs[3].dims == y.dims)) return {Reason::broadcast, "the residual"};
    fill(problem.inputs[3], last, ignored, shape.residual);
  }
  shape.x_type = x.dtype, shape.y_type = y.dtype;
  return check_size(problem, shape);
}

Reason conv_shape(const Problem& problem, ConvShape& shape) {
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (!is_real(x.dtype) || !is_real(y.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!w.constant || w.dtype != DType::f32) return {Reason::not_constant, "the weights, of f32,"};
  if (problem.inputs.size() > 3 && problem.inputs[3] && problem.inputs[3].dtype != y.dtype)
    return {Reason::element_type, "the residual", "the result's type"};
  if (!is_product(problem)) return conv_geometry(problem, shape);
  if (const Reason reason = product_shape(problem, shape)) return reason;
  shape.x_type = x.dtype, shape.y_type = y.dtype;
  return check_size(problem, shape);
}

ops::Epilogue conv_epilogue(const Problem& problem) { return ops::epilogue_of(*problem.node); }

bool has_residual(const Problem& problem) { return problem.inputs.size() > 3 && problem.inputs[3]; }

Reason refuses_added_zeros(const Problem& problem) {
  return problem.strict && is_real(problem.inputs[0].dtype) ? Reason(Reason::strict, "summation") : Reason();
}

int vector_of(const Problem& problem, const ConvShape& shape) {
  for (int vector = static_cast<int>(16 / size_of(shape.x_type)); vector > 1; vector /= 2) {
    bool fits = shape.in_c % vector == 0 && problem.inputs[0].aligned;
    for (int at = 0; at < 3; ++at) fits = fits && shape.x[at] % vector == 0;
    if (fits) return vector;
  }
  return 1;
}

std::vector<float> conv_weights(const Problem& problem, const ConvShape& shape) {
  const float* from = problem.inputs[1].constant.data<float>();
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w, c_in = shape.channels_in(), depth = shape.depth();
  std::vector<float> to(static_cast<size_t>(shape.out_c * depth));
  if (is_product(problem)) {
    const bool turned = problem.node->integer("transB", 0) != 0;
    for (int64_t n = 0; n < shape.out_c; ++n)
      for (int64_t k = 0; k < depth; ++k) to[n * depth + k] = turned ? from[n * depth + k] : from[k * shape.out_c + n];
    return to;
  }
  for (int64_t n = 0; n < shape.out_c; ++n)
    for (int64_t c = 0; c < c_in; ++c)
      for (int64_t tap = 0; tap < taps; ++tap) to[n * depth + tap * c_in + c] = from[(n * c_in + c) * taps + tap];
  return to;
}

std::vector<float> conv_bias(const Problem& problem, const ConvShape& shape) {
  std::vector<float> bias(static_cast<size_t>(shape.out_c), 0.f);
  if (problem.inputs.size() < 3 || !problem.inputs[2]) return bias;
  const Tensor& given = problem.inputs[2].constant;
  for (size_t at = 0; at < bias.size(); ++at) bias[at] = given.data<float>()[given.elements() == 1 ? 0 : at];
  return bias;
}

DType rounds_weights_to(const Problem& problem, size_t input) {
  if (!ops::traits_of(problem.node->op).is_weight(input) || !problem.inputs[input].constant ||
      problem.inputs[input].dtype != DType::f32)
    return DType::undefined;
  for (const DType type : {problem.inputs[0].dtype, problem.outputs[0].dtype})
    if (is_16_bit(type)) return type;
  return DType::undefined;
}

std::vector<std::string> epilogue_defines(const ops::Epilogue& epilogue) {
  return {define_expression("ACT", epilogue.activation), define("RESIDUAL", static_cast<int>(epilogue.residual))};
}

std::string define(const char* name, int64_t value) { return std::string(name) + "=" + std::to_string(value); }
std::string define_expression(const char* name, expr::Id id) {
  return std::string(name) + "=tenon::expr::" + ops::expression(id).name;
}
std::string define_type(const char* name, DType type) { return std::string(name) + "=" + type_name(type); }

uint16_t bits16_of(float value, DType type) {
  return type == DType::bf16 ? ops::bf16_bits(value) : ops::f16_bits(value);
}

}  // namespace tenon::cuda
