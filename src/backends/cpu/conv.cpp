// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/packing.h"
#include "ops/half.h"
#include "ops/op.h"
#include "ops/round_weights.h"

namespace tenon::cpu {

using backends::Operand;
using backends::Problem;
using backends::Reason;

namespace {

/// A list of integers among a node's attributes, not copied; each is `otherwise` where there is none of so many.
struct Integers {
  const int64_t* values;
  int64_t otherwise;
  int64_t operator[](size_t at) const { return values ? values[at] : otherwise; }
};
Integers integers(const ir::Node& node, const char* name, size_t count, int64_t otherwise) {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return {nullptr, otherwise};
  const auto* list = std::get_if<std::vector<int64_t>>(&found->second);
  return {list && list->size() >= count ? list->data() : nullptr, otherwise};
}

}  // namespace

Reason conv_shape_of(const Problem& problem, ConvShape& shape) {
  const ir::Node& node = *problem.node;
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (x.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
  if (node.text("layout", "") != "NHWC") return {Reason::layout, "NHWC"};
  if (!w.constant) return {Reason::not_constant, "the weights"};
  if (problem.inputs.size() > 2 && problem.inputs[2] && !problem.inputs[2].constant)
    return {Reason::not_constant, "the bias"};
  shape.in_nchw = node.text("input_layout", "") == "NCHW";
  const int h = shape.in_nchw ? 2 : 1, c = shape.in_nchw ? 1 : 3;
  if (y.dims[3] != 1 && y.strides[3] != 1) return {Reason::not_contiguous, "output channels"};
  if (shape.in_nchw ? !x.dense() : (x.dims[3] != 1 && x.strides[3] != 1))
    return {Reason::not_contiguous, "input channels"};
  shape.batch = x.dims[0];
  shape.in_h = x.dims[h];
  shape.in_w = x.dims[h + 1];
  shape.in_c = x.dims[c];
  shape.out_h = y.dims[1];
  shape.out_w = y.dims[2];
  shape.out_c = y.dims[3];
  shape.kernel_h = static_cast<int>(w.dims[2]);
  shape.kernel_w = static_cast<int>(w.dims[3]);
  const Integers strides = integers(node, "strides", 2, 1), dilations = integers(node, "dilations", 2, 1);
  Integers pads = integers(node, "pads", 4, 0);
  shape.stride_h = static_cast<int>(strides[0]);
  shape.stride_w = static_cast<int>(strides[1]);
  shape.dilation_h = static_cast<int>(dilations[0]);
  shape.dilation_w = static_cast<int>(dilations[1]);
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  if (auto_pad == "VALID") pads = {nullptr, 0};
  int64_t same[2];
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    const auto begin = [&](int64_t in, int64_t out, int64_t stride, int64_t kernel, int64_t dilation) {
      const int64_t total = std::max<int64_t>(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - in);
      return auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    };
    same[0] = begin(shape.in_h, shape.out_h, strides[0], w.dims[2], dilations[0]);
    same[1] = begin(shape.in_w, shape.out_w, strides[1], w.dims[3], dilations[1]);
    pads = {same, 0};
  }
  shape.pad_top = static_cast<int>(pads[0]);
  shape.pad_left = static_cast<int>(pads[1]);
  if (shape.pad_top < 0 || shape.pad_left < 0) return {Reason::padding, "0 or more"};
  shape.groups = static_cast<int>(node.integer("group", 1));
  const auto pitches = [](const Operand& operand, int64_t& image, int64_t& row, int64_t& pixel) {
    image = operand.strides[0];
    row = operand.strides[1];
    pixel = operand.strides[2];
  };
  pitches(x, shape.in_image, shape.in_row, shape.in_pixel);
  pitches(y, shape.out_image, shape.out_row, shape.out_pixel);
  shape.res_image = shape.res_row = shape.res_pixel = 0;
  if (problem.inputs.size() > 3 && problem.inputs[3]) {
    const Operand& residual = problem.inputs[3];
    if (!(residual.dims == y.dims)) return {Reason::broadcast, "the residual"};
    if (residual.dims[3] != 1 && residual.strides[3] != 1) return {Reason::not_contiguous, "the residual's channels"};
    pitches(residual, shape.res_image, shape.res_row, shape.res_pixel);
  }
  return {};
}

const ConvTactic* conv_tactic_named(const Problem& problem, const char* name) {
  for (const ConvTactic& tactic : conv_tactics(isa_for(problem)))
    if (!std::strcmp(tactic.name, name)) return &tactic;
  return nullptr;
}

namespace {

constexpr bool is_winograd(const char* name) { return name[0] == 'w'; }
constexpr bool is_bf16(const char* name) { return name[0] == 'b'; }

Tensor weights_of(const Problem& problem, bool bf16) {
  const Tensor given = weights_f32(problem.inputs[1].constant);
  if (!bf16) return given;
  Tensor rounded(DType::f32, given.dims());
  ops::round_weights(given, DType::bf16, rounded);
  return rounded;
}

/// Reads a number of 16 bits.
float (*value_of(DType type))(const void*, int64_t) {
  if (type == DType::f16)
    return [](const void* bits, int64_t at) { return ops::f16_value(static_cast<const uint16_t*>(bits)[at]); };
  return [](const void* bits, int64_t at) { return ops::bf16_value(static_cast<const uint16_t*>(bits)[at]); };
}

class ConvStep : public backends::Step {
 public:
  ConvStep(const ConvTactic& tactic, const Problem& problem, const ConvShape& shape, const Epilogue& epilogue)
      : packed_(packed_weights(problem, tactic, shape, [&] { return weights_of(problem, is_bf16(tactic.name)); })) {
    const float* bias =
        problem.inputs.size() > 2 && problem.inputs[2] ? problem.inputs[2].constant.data<float>() : nullptr;
    kernel_ = tactic.make(shape, epilogue, floats_of(*packed_), bias, problem.threads);
    weights_ = problem.inputs[1].constant;
    kernel_->refer_to({weights_.data(), weights_.dtype() == DType::f32 ? nullptr : value_of(weights_.dtype())});
    residual_ = epilogue.residual != Residual::none;
    residual_constant_ = residual_ ? problem.inputs[3].constant : Tensor();
  }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t packed_bytes() const override { return packed_->size(); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    kernel_->run(reinterpret_cast<const float*>(inputs[0]),
                 residual_ ? reinterpret_cast<const float*>(inputs[3]) : nullptr, reinterpret_cast<float*>(outputs[0]),
                 worker);
  }

 private:
  Packed packed_;
  Tensor weights_, residual_constant_;
  std::unique_ptr<ConvKernel> kernel_;
  bool residual_;
};

template <const char* const& name>
Reason refuses(const Problem& problem) {
  const ConvTactic* tactic = conv_tactic_named(problem, name);
  if (!tactic) return Reason::instruction_set;
  if (problem.strict && is_winograd(name)) return {Reason::strict, "summation"};
  if (is_bf16(name) && !problem.bf16) return {Reason::precision, "bf16"};
  ConvShape shape{};
  if (!takes_weights(problem)) return {Reason::element_type, "elements", "f32"};
  if (const Reason reason = conv_shape_of(problem, shape)) return reason;
  return tactic->refuses(shape, epilogue_of(*problem.node));
}

template <const char* const& name>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  ConvShape shape{};
  conv_shape_of(problem, shape);
  return std::make_unique<ConvStep>(*conv_tactic_named(problem, name), problem, shape, epilogue_of(*problem.node));
}

constexpr const char* direct = "direct";
constexpr const char* winograd4 = "winograd4";
constexpr const char* winograd2 = "winograd2";
constexpr const char* depthwise = "depthwise";
constexpr const char* stem = "stem";
constexpr const char* gemv = "gemv";
constexpr const char* bf16_dot = "bf16_dot";
constexpr const char* bf16_tiles = "bf16_tiles";
const backends::KernelRegistrar register_direct({"Conv", direct, 1, refuses<direct>, make<direct>, "direct"});
const backends::KernelRegistrar register_winograd4({"Conv", winograd4, 3, refuses<winograd4>, make<winograd4>,
                                                    "winograd"});
const backends::KernelRegistrar register_winograd2({"Conv", winograd2, 2, refuses<winograd2>, make<winograd2>,
                                                    "winograd"});
const backends::KernelRegistrar register_depthwise({"Conv", depthwise, 4, refuses<depthwise>, make<depthwise>,
                                                    "depthwise"});
const backends::KernelRegistrar register_stem({"Conv", stem, 4, refuses<stem>, make<stem>, "stem"});
const backends::KernelRegistrar register_gemv({"Conv", gemv, 0, refuses<gemv>, make<gemv>, "direct"});
const backends::KernelRegistrar register_bf16_dot({"Conv", bf16_dot, 5, refuses<bf16_dot>, make<bf16_dot>,
                                                   "bf16 bf16_dots"});
const backends::KernelRegistrar register_bf16_tiles({"Conv", bf16_tiles, 6, refuses<bf16_tiles>, make<bf16_tiles>,
                                                     "bf16 bf16_tiles"});

}  // namespace
}  // namespace tenon::cpu
