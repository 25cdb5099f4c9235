// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/packing.h"
#include "ops/epilogue.h"
#include "ops/half.h"
#include "ops/op.h"
#include "ops/parts.h"
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

ConvNode::ConvNode(const ir::Node& node) {
  const bool of_frames = node.has("count"), is_planar = node.has("planes");
  if (!of_frames && !is_planar) {
    read(node);
    return;
  }
  part = std::make_shared<const ir::Node>(ops::part_of(node, "Conv", "conv."));
  read(*part);
  perm = node.integers("planes");
  if (!of_frames) return;
  frames = node.integer("frames", 1), count = node.integer("count", 1);
  step = node.integer("step", 1), stride = node.integer("stride", 1), sizes = node.integers("sizes");
  before = node.integer("before", 0), behind = node.integer("behind", 0);
  apart = !is_planar && groups > 1;
}

void ConvNode::read(const ir::Node& node) {
  epilogue = epilogue_of(node);
  slopes = static_cast<int64_t>(ops::epilogue_of(node).slopes.size());
  in_nhwc = node.text("layout", "") == "NHWC";
  in_nchw = node.text("input_layout", "") == "NCHW";
  const Integers given[] = {integers(node, "strides", 2, 1), integers(node, "dilations", 2, 1),
                            integers(node, "pads", 4, 0)};
  for (size_t at = 0; at < 2; ++at) strides[at] = given[0][at], dilations[at] = given[1][at], pads[at] = given[2][at];
  groups = node.integer("group", 1);
  const std::string auto_pad = node.text("auto_pad", "NOTSET");
  padding = auto_pad == "VALID"        ? Padding::none
            : auto_pad == "SAME_UPPER" ? Padding::same_upper
            : auto_pad == "SAME_LOWER" ? Padding::same_lower
                                       : Padding::given;
}

ConvOperands conv_operands(const Problem& problem) {
  const auto optional = [&](size_t at) {
    return at < problem.inputs.size() && problem.inputs[at] ? &problem.inputs[at] : nullptr;
  };
  return {problem.inputs[0], problem.inputs[1], optional(2), optional(3), problem.outputs[0]};
}

namespace {

/// Pixels before the first along an axis.
int64_t pad_before(const ConvNode& node, size_t axis, int64_t in, int64_t out, int64_t kernel) {
  if (node.padding == ConvNode::Padding::given) return node.pads[axis];
  if (node.padding == ConvNode::Padding::none) return 0;
  const int64_t total =
      std::max<int64_t>(0, (out - 1) * node.strides[axis] + (kernel - 1) * node.dilations[axis] + 1 - in);
  return node.padding == ConvNode::Padding::same_upper ? total / 2 : total - total / 2;
}

/// Of images.
Reason image_shape_of(const ConvNode& node, const ConvOperands& operands, ConvShape& shape) {
  const Operand &x = operands.x, &w = operands.weights, &y = operands.y;
  if (x.dims.rank() != 4) return {Reason::shape, "the input", "two spatial axes"};
  if (!node.in_nhwc) return {Reason::layout, "NHWC"};
  if (!w.constant) return {Reason::not_constant, "the weights"};
  if (operands.bias && !operands.bias->constant) return {Reason::not_constant, "the bias"};
  if (x.dims.elements() == 0 || y.dims.elements() == 0) return Reason::empty;
  shape.in_nchw = node.in_nchw, shape.slices = 1, shape.in_slice = 0;
  const int h = shape.in_nchw ? 2 : 1, c = shape.in_nchw ? 1 : 3;
  if (y.dims[3] != 1 && y.strides[3] != 1) return {Reason::not_contiguous, "output channels"};
  if (shape.in_nchw ? !x.dense() : (x.dims[3] != 1 && x.strides[3] != 1))
    return {Reason::not_contiguous, "input channels"};
  shape.batch = x.dims[0];
  shape.in_h = x.dims[h], shape.in_w = x.dims[h + 1], shape.in_c = x.dims[c];
  shape.out_h = y.dims[1], shape.out_w = y.dims[2], shape.out_c = y.dims[3];
  if (node.slopes && node.slopes != shape.out_c) return {Reason::shape, "slopes", "one for each output channel"};
  shape.kernel_h = static_cast<int>(w.dims[2]), shape.kernel_w = static_cast<int>(w.dims[3]);
  shape.stride_h = static_cast<int>(node.strides[0]), shape.stride_w = static_cast<int>(node.strides[1]);
  shape.dilation_h = static_cast<int>(node.dilations[0]), shape.dilation_w = static_cast<int>(node.dilations[1]);
  shape.pad_top = static_cast<int>(pad_before(node, 0, shape.in_h, shape.out_h, w.dims[2]));
  shape.pad_left = static_cast<int>(pad_before(node, 1, shape.in_w, shape.out_w, w.dims[3]));
  if (shape.pad_top < 0 || shape.pad_left < 0) return {Reason::padding, "0 or more"};
  shape.groups = static_cast<int>(node.groups);
  const auto pitches = [](const Operand& operand, int64_t& image, int64_t& row, int64_t& pixel) {
    image = operand.strides[0], row = operand.strides[1], pixel = operand.strides[2];
  };
  pitches(x, shape.in_image, shape.in_row, shape.in_pixel);
  pitches(y, shape.out_image, shape.out_row, shape.out_pixel);
  shape.res_image = shape.res_row = shape.res_pixel = 0;
  if (operands.residual) {
    const Operand& residual = *operands.residual;
    if (!(residual.dims == y.dims)) return {Reason::broadcast, "the residual"};
    if (residual.dims[3] != 1 && residual.strides[3] != 1) return {Reason::not_contiguous, "the residual's channels"};
    pitches(residual, shape.res_image, shape.res_row, shape.res_pixel);
  }
  return {};
}

}  // namespace

ConvVolumes volumes_of(const ConvNode& node, const ConvOperands& operands) {
  if (!node.count || !node.perm.empty()) return {};
  return {operands.x.dims[0], operands.x.strides[0], node.frames * operands.y.strides[0],
          operands.residual ? node.frames * operands.residual->strides[0] : 0};
}

namespace {

/// Planes of frames of a volume, side by side as its channels, as if they were there.
Operand planes_of_frames(const ConvNode& node, const Operand& volume) {
  Operand planes = volume;
  planes.dims = {volume.dims[1] * node.count, node.frames, volume.dims[3], volume.dims[4]};
  planes.strides = {volume.strides[1], volume.strides[2] * node.stride, volume.strides[3], volume.strides[4]};
  return planes;
}

/// Of images whose planes lie apart, as the copy of channels last that the convolution would read.
Reason planar_shape_of(const ConvNode& node, const ConvOperands& operands, ConvShape& shape) {
  Operand planes = operands.x;
  if (node.count > 0) {
    if (planes.dims.rank() != 5 || planes.dims[0] != 1) return {Reason::shape, "the input", "one volume"};
    planes = planes_of_frames(node, operands.x);
  } else if (planes.dims.rank() == 5 && planes.dims[0] == 1) {
    planes.dims = Dims(std::span<const int64_t>(planes.dims.begin() + 1, planes.dims.end()));
    planes.strides = Dims(std::span<const int64_t>(planes.strides.begin() + 1, planes.strides.end()));
  }
  if (planes.dims.rank() != 4 || node.perm.size() != 4) return {Reason::shape, "the input", "two spatial axes"};
  Operand x = planes;
  for (size_t at = 0; at < 4; ++at) {
    const auto from = static_cast<size_t>(node.perm[at]);
    x.dims[at] = planes.dims[from], x.strides[at] = planes.strides[from];
  }
  if (x.dims[2] != 1 && x.strides[2] != 1) return {Reason::not_contiguous, "rows of the input"};
  const int64_t channel = x.strides[3];
  x.strides[3] = 1;
  const ConvOperands images{x, operands.weights, operands.bias, operands.residual, operands.y};
  if (const Reason reason = image_shape_of(node, images, shape)) return reason;
  shape.in_nchw = true, shape.in_pixel = 1, shape.in_channel = std::max<int64_t>(1, channel);
  if (node.count == 0) return {};
  shape.slices = node.count, shape.in_slice = operands.x.strides[2] * node.step;
  shape.frame = operands.x.strides[2], shape.frames = operands.x.dims[2], shape.frames_before = node.before;
  return {};
}

}  // namespace

Reason conv_shape_of(const ConvNode& node, const ConvOperands& operands, ConvShape& shape) {
  if (!node.perm.empty()) return planar_shape_of(node, operands, shape);
  if (!node.count) return image_shape_of(node, operands, shape);
  const Operand& volume = operands.x;
  if (volume.dims.rank() != 5) return {Reason::shape, "the input", "three spatial axes"};
  if (volume.dims[4] != 1 && volume.strides[4] != 1) return {Reason::not_contiguous, "input channels"};
  Operand x = volume, y = operands.y, residual = operands.residual ? *operands.residual : Operand{};
  x.dims = {node.frames, volume.dims[2], volume.dims[3], volume.dims[4] * node.count};
  x.strides = {volume.strides[1] * node.stride, volume.strides[2], volume.strides[3], 1};
  if (node.sizes != std::vector<int64_t>(x.dims.begin() + 1, x.dims.end()))
    return {Reason::shape, "the input", "images of the given sizes"};
  y.dims[0] = node.frames;
  if (residual) residual.dims[0] = node.frames;
  const ConvOperands images{x, operands.weights, operands.bias, residual ? &residual : nullptr, y};
  if (const Reason reason = image_shape_of(node, images, shape)) return reason;
  if (shape.in_nchw) return {Reason::layout, "NHWC"};
  const bool apart = node.apart && operands.weights.dims[1] == 1;
  if (shape.groups != (apart ? volume.dims[4] : 1)) return Reason::grouped;
  shape.slices = node.count, shape.in_slice = volume.strides[1] * node.step;
  if (node.before || node.behind)
    shape.frame = volume.strides[1], shape.frames = volume.dims[1], shape.frames_before = node.before;
  return {};
}

Reason conv_shape_of(const Problem& problem, ConvShape& shape) {
  return conv_shape_of(ConvNode(*problem.node), conv_operands(problem), shape);
}

const ConvTactic* conv_tactic_named(const Problem& problem, const char* name) {
  for (const ConvTactic& tactic : conv_tactics(isa_for(problem)))
    if (!std::strcmp(tactic.name, name)) return &tactic;
  return nullptr;
}

GivenWeights given_weights(const Tensor& weights) {
  if (weights.dtype() == DType::f32) return {weights.data(), nullptr};
  if (weights.dtype() == DType::f16)
    return {weights.data(),
            [](const void* bits, int64_t at) { return ops::f16_value(static_cast<const uint16_t*>(bits)[at]); }};
  return {weights.data(),
          [](const void* bits, int64_t at) { return ops::bf16_value(static_cast<const uint16_t*>(bits)[at]); }};
}

bool packs_alike(const ConvTactic& tactic, const ConvShape& a, const ConvShape& b) {
  return a.in_c == b.in_c && a.out_c == b.out_c && a.kernel_h == b.kernel_h && a.kernel_w == b.kernel_w &&
         a.groups == b.groups && (!tactic.form || tactic.form(a) == tactic.form(b));
}

namespace {

constexpr bool is_winograd(const char* name) { return name[0] == 'w'; }
constexpr bool is_strassen(const char* name) { return name[0] == 's' && name[2] == 'r'; }
constexpr bool is_bf16(const char* name) { return name[0] == 'b'; }

/// Weights [C, 1, H, W] of each frame as [C, frames, H, W].
Tensor joined_taps(const Problem& problem) {
  std::vector<Tensor> frames{weights_f32(problem.inputs[1].constant)};
  for (size_t at = taps_at; at < problem.inputs.size(); ++at)
    frames.push_back(weights_f32(problem.inputs[at].constant));
  const Dims& d = frames[0].dims();
  const int64_t plane = d[2] * d[3];
  Tensor joined(DType::f32, {d[0], static_cast<int64_t>(frames.size()), d[2], d[3]});
  auto* to = joined.data<float>();
  for (int64_t c = 0; c < d[0]; ++c)
    for (const Tensor& frame : frames) to = std::copy_n(frame.data<float>() + c * plane, plane, to);
  return joined;
}

Tensor weights_of(const Problem& problem, bool bf16) {
  const Tensor given = problem.inputs.size() > taps_at ? joined_taps(problem) : weights_f32(problem.inputs[1].constant);
  if (!bf16) return given;
  Tensor rounded(DType::f32, given.dims());
  ops::round_weights(given, DType::bf16, rounded);
  return rounded;
}

class ConvStep : public backends::Step {
  /// What no size changes.
  struct Fixed {
    const ConvTactic* tactic;
    ConvNode node;
    Packed packed;
    Tensor weights;
  };

 public:
  ConvStep(const ConvTactic& tactic, const Problem& problem, const ConvNode& node, const ConvShape& shape)
      : fixed_(std::make_shared<Fixed>(
            &tactic, node,
            packed_weights(problem, tactic, shape, [&] { return weights_of(problem, is_bf16(tactic.name)); }),
            problem.inputs[1].constant)),
        shape_(shape),
        volumes_(volumes_of(node, conv_operands(problem))),
        residual_(node.epilogue.residual != Residual::none) {
    const float* bias =
        problem.inputs.size() > 2 && problem.inputs[2] ? problem.inputs[2].constant.data<float>() : nullptr;
    auto kernel = tactic.make(shape, node.epilogue, floats_of(*fixed_->packed), bias, problem.threads);
    kernel->refer_to(given_weights(fixed_->weights));
    kernel_ = std::move(kernel);
  }
  ConvStep(std::shared_ptr<const Fixed> fixed, const ConvShape& shape, const ConvVolumes& volumes,
           std::unique_ptr<const ConvKernel> kernel)
      : fixed_(std::move(fixed)),
        shape_(shape),
        volumes_(volumes),
        kernel_(std::move(kernel)),
        residual_(fixed_->node.epilogue.residual != Residual::none) {}
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    ConvShape shape{};
    const Fixed& fixed = *fixed_;
    if (problem.inputs[1].constant.data() != fixed.weights.data() ||
        conv_shape_of(fixed.node, conv_operands(problem), shape) || fixed.tactic->refuses(shape, fixed.node.epilogue) ||
        !packs_alike(*fixed.tactic, shape, shape_))
      return nullptr;
    return std::make_unique<ConvStep>(fixed_, shape, volumes_of(fixed.node, conv_operands(problem)),
                                      kernel_->resized(shape, problem.threads));
  }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t packed_bytes() const override { return fixed_->packed->size(); }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* in = reinterpret_cast<const float*>(inputs[0]);
    const auto* residual = residual_ ? reinterpret_cast<const float*>(inputs[3]) : nullptr;
    auto* out = reinterpret_cast<float*>(outputs[0]);
    // Each part of the work falls to the same worker in all volumes: no barrier is needed between them.
    for (int64_t at = 0; at < volumes_.count; ++at)
      kernel_->run(in + at * volumes_.in, residual ? residual + at * volumes_.residual : nullptr,
                   out + at * volumes_.out, worker);
  }

 private:
  std::shared_ptr<const Fixed> fixed_;
  ConvShape shape_;
  ConvVolumes volumes_;
  std::unique_ptr<const ConvKernel> kernel_;
  bool residual_;
};

template <const char* const& name>
Reason refuses(const Problem& problem) {
  const ConvTactic* tactic = conv_tactic_named(problem, name);
  if (!tactic) return Reason::instruction_set;
  if (is_strassen(name) ? problem.strict || problem.fused : problem.strict && is_winograd(name))
    return {Reason::strict, "summation"};
  if (is_bf16(name) && !problem.bf16) return {Reason::precision, "bf16"};
  ConvShape shape{};
  if (!takes_weights(problem)) return {Reason::element_type, "elements", "f32"};
  const ConvNode node(*problem.node);
  if (node.apart && problem.inputs.size() != taps_at + static_cast<size_t>(node.count) - 1)
    return {Reason::shape, "the weights", "as many as frames"};
  for (size_t at = taps_at; at < problem.inputs.size(); ++at) {
    if (!problem.inputs[at].constant) return {Reason::not_constant, "the weights"};
    if (!(problem.inputs[at].dims == problem.inputs[1].dims)) return {Reason::shape, "the weights", "alike"};
  }
  if (const Reason reason = conv_shape_of(node, conv_operands(problem), shape)) return reason;
  return tactic->refuses(shape, node.epilogue);
}

template <const char* const& name>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  ConvShape shape{};
  const ConvNode node(*problem.node);
  conv_shape_of(node, conv_operands(problem), shape);
  return std::make_unique<ConvStep>(*conv_tactic_named(problem, name), problem, node, shape);
}

template <const char* const& name>
backends::WeightCache::Form form_packed(const Problem& problem) {
  ConvShape shape{};
  conv_shape_of(problem, shape);
  return form_of(problem.inputs[1].constant.data(), order_of(problem), *conv_tactic_named(problem, name), shape);
}

template <const char* const& name>
backends::Kernel conv_kernel(int priority, const char* family, const char* op = "Conv") {
  return {op, name, priority, refuses<name>, make<name>, family, false, "", form_packed<name>};
}

constexpr const char* direct = "direct";
constexpr const char* winograd4 = "winograd4";
constexpr const char* winograd2 = "winograd2";
constexpr const char* winograd_5x5 = "winograd_5x5";
constexpr const char* winograd_frames = "winograd_frames";
constexpr const char* winograd4_taps = "winograd4_taps";
constexpr const char* winograd2_taps = "winograd2_taps";
constexpr const char* depthwise = "depthwise";
constexpr const char* depthwise_rows = "depthwise_rows";
constexpr const char* stem = "stem";
constexpr const char* gemv = "gemv";
constexpr const char* strassen = "strassen";
constexpr const char* bf16_dot = "bf16_dot";
constexpr const char* bf16_tiles = "bf16_tiles";
const backends::KernelRegistrar register_direct(conv_kernel<direct>(1, "direct"));
const backends::KernelRegistrar register_winograd4(conv_kernel<winograd4>(3, "winograd"));
const backends::KernelRegistrar register_winograd2(conv_kernel<winograd2>(2, "winograd"));
const backends::KernelRegistrar register_winograd_5x5(conv_kernel<winograd_5x5>(2, "winograd"));
const backends::KernelRegistrar frames_direct(conv_kernel<direct>(1, "direct", "tenon:FramesConv"));
const backends::KernelRegistrar frames_winograd4(conv_kernel<winograd4>(3, "winograd", "tenon:FramesConv"));
const backends::KernelRegistrar frames_winograd2(conv_kernel<winograd2>(2, "winograd", "tenon:FramesConv"));
const backends::KernelRegistrar frames_winograd_5x5(conv_kernel<winograd_5x5>(2, "winograd", "tenon:FramesConv"));
const backends::KernelRegistrar register_winograd4_taps(conv_kernel<winograd4_taps>(1, "winograd"));
const backends::KernelRegistrar register_winograd2_taps(conv_kernel<winograd2_taps>(1, "winograd"));
const backends::KernelRegistrar register_depthwise(conv_kernel<depthwise>(4, "depthwise"));
const backends::KernelRegistrar register_depthwise_rows(conv_kernel<depthwise_rows>(5, "depthwise_rows"));
const backends::KernelRegistrar frames_depthwise(conv_kernel<depthwise_rows>(5, "depthwise_rows",
                                                                             "tenon:FramesDepthwise"));
const backends::KernelRegistrar register_stem(conv_kernel<stem>(4, "stem"));
const backends::KernelRegistrar planar_stem(conv_kernel<stem>(4, "stem", "tenon:PlanarConv"));
const backends::KernelRegistrar planar_frames(conv_kernel<winograd_frames>(5, "winograd", "tenon:PlanarConv"));
const backends::KernelRegistrar register_gemv(conv_kernel<gemv>(0, "direct"));
const backends::KernelRegistrar register_strassen(conv_kernel<strassen>(0, "strassen"));
const backends::KernelRegistrar register_bf16_dot(conv_kernel<bf16_dot>(5, "bf16 bf16_dots"));
const backends::KernelRegistrar register_bf16_tiles(conv_kernel<bf16_tiles>(6, "bf16 bf16_tiles"));

}  // namespace
}  // namespace tenon::cpu
