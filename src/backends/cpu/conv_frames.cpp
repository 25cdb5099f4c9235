// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/conv.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/packing.h"
#include "ops/parts.h"

namespace tenon::cpu::conv_frames {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

/// What the node says, for all sizes.
struct Setting {
  ConvNode conv;
  int64_t frames, count, step, stride;
  std::vector<int64_t> sizes;  // of an image
  explicit Setting(const ir::Node& node)
      : conv(ops::part_of(node, "Conv", "conv.")),
        frames(node.integer("frames", 1)),
        count(node.integer("count", 1)),
        step(node.integer("step", 1)),
        stride(node.integer("stride", 1)),
        sizes(node.integers("sizes")) {}
};

/// The frames of one volume as images of a convolution whose channels lie in slices, and the volumes.
struct Shape {
  ConvShape frames{};
  int64_t volumes, in_volume, out_volume, res_volume;
};

Reason shape_of(const Setting& setting, const Problem& problem, Shape& shape) {
  const Operand& volume = problem.inputs[0];
  if (volume.dims.rank() != 5) return {Reason::shape, "the input", "three spatial axes"};
  if (volume.dims[4] != 1 && volume.strides[4] != 1) return {Reason::not_contiguous, "input channels"};
  Operand x = volume, y = problem.outputs[0], residual;
  x.dims = {setting.frames, volume.dims[2], volume.dims[3], volume.dims[4] * setting.count};
  x.strides = {volume.strides[1] * setting.stride, volume.strides[2], volume.strides[3], 1};
  if (setting.sizes != std::vector<int64_t>(x.dims.begin() + 1, x.dims.end()))
    return {Reason::shape, "the input", "images of the given sizes"};
  y.dims[0] = setting.frames;
  ConvOperands operands = conv_operands(problem);
  if (operands.residual) {
    residual = *operands.residual;
    residual.dims[0] = setting.frames;
    operands.residual = &residual;
  }
  const ConvOperands images{x, operands.weights, operands.bias, operands.residual, y};
  if (const Reason reason = conv_shape_of(setting.conv, images, shape.frames)) return reason;
  if (shape.frames.in_nchw) return {Reason::layout, "NHWC"};
  if (shape.frames.groups != 1) return Reason::grouped;
  shape.frames.slices = setting.count, shape.frames.in_slice = volume.strides[1] * setting.step;
  shape.volumes = volume.dims[0], shape.in_volume = volume.strides[0];
  shape.out_volume = setting.frames * shape.frames.out_image,
  shape.res_volume = setting.frames * shape.frames.res_image;
  return {};
}

/// A convolution that reads its frames where they lie.
class ConvFramesStep : public backends::Step {
  /// What no size changes.
  struct Fixed {
    const ConvTactic* tactic;
    Setting setting;
    Packed packed;
    Tensor weights;
  };

 public:
  ConvFramesStep(const ConvTactic& tactic, const Problem& problem, const Setting& setting, const Shape& shape)
      : fixed_(std::make_shared<Fixed>(
            &tactic, setting,
            packed_weights(problem, tactic, shape.frames, [&] { return weights_f32(problem.inputs[1].constant); }),
            problem.inputs[1].constant)),
        shape_(shape) {
    const float* bias =
        problem.inputs.size() > 2 && problem.inputs[2] ? problem.inputs[2].constant.data<float>() : nullptr;
    auto kernel = tactic.make(shape.frames, setting.conv.epilogue, floats_of(*fixed_->packed), bias, problem.threads);
    kernel->refer_to(given_weights(fixed_->weights));
    kernel_ = std::move(kernel);
  }
  ConvFramesStep(std::shared_ptr<const Fixed> fixed, const Shape& shape, std::unique_ptr<const ConvKernel> kernel)
      : fixed_(std::move(fixed)), shape_(shape), kernel_(std::move(kernel)) {}

  std::unique_ptr<Step> resized(const Problem& problem) const override {
    Shape shape;
    const Fixed& fixed = *fixed_;
    if (problem.inputs[1].constant.data() != fixed.weights.data() || shape_of(fixed.setting, problem, shape) ||
        fixed.tactic->refuses(shape.frames, fixed.setting.conv.epilogue) ||
        !packs_alike(*fixed.tactic, shape.frames, shape_.frames))
      return nullptr;
    return std::make_unique<ConvFramesStep>(fixed_, shape, kernel_->resized(shape.frames, problem.threads));
  }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t packed_bytes() const override { return fixed_->packed->size(); }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* in = reinterpret_cast<const float*>(inputs[0]);
    const float* residual =
        fixed_->setting.conv.epilogue.residual == Residual::none ? nullptr : reinterpret_cast<const float*>(inputs[3]);
    auto* out = reinterpret_cast<float*>(outputs[0]);
    // Each part of the work falls to the same worker in all volumes: no barrier is needed between them.
    for (int64_t at = 0; at < shape_.volumes; ++at)
      kernel_->run(in + at * shape_.in_volume, residual ? residual + at * shape_.res_volume : nullptr,
                   out + at * shape_.out_volume, worker);
  }

 private:
  std::shared_ptr<const Fixed> fixed_;
  Shape shape_;
  std::unique_ptr<const ConvKernel> kernel_;
};

template <const char* const& name>
Reason refuses(const Problem& problem) {
  const ConvTactic* tactic = conv_tactic_named(problem, name);
  if (!tactic) return Reason::instruction_set;
  if (problem.strict && name[0] == 'w') return {Reason::strict, "summation"};
  if (!takes_weights(problem)) return {Reason::element_type, "elements", "f32"};
  const Setting setting(*problem.node);
  Shape shape;
  if (const Reason reason = shape_of(setting, problem, shape)) return reason;
  return tactic->refuses(shape.frames, setting.conv.epilogue);
}

template <const char* const& name>
std::unique_ptr<backends::Step> make(const Problem& problem) {
  const Setting setting(*problem.node);
  Shape shape;
  shape_of(setting, problem, shape);
  return std::make_unique<ConvFramesStep>(*conv_tactic_named(problem, name), problem, setting, shape);
}

template <const char* const& name>
backends::WeightCache::Form form_packed(const Problem& problem) {
  Shape shape;
  shape_of(Setting(*problem.node), problem, shape);
  return form_of(problem.inputs[1].constant.data(), order_of(problem), *conv_tactic_named(problem, name), shape.frames);
}

template <const char* const& name>
backends::Kernel kernel_of(int priority, const char* family) {
  return {"tenon:FramesConv", name, priority, refuses<name>, make<name>, family, false, "", form_packed<name>};
}

constexpr const char* direct = "direct";
constexpr const char* winograd4 = "winograd4";
constexpr const char* winograd2 = "winograd2";
const backends::KernelRegistrar register_direct(kernel_of<direct>(1, "direct"));
const backends::KernelRegistrar register_winograd4(kernel_of<winograd4>(3, "winograd"));
const backends::KernelRegistrar register_winograd2(kernel_of<winograd2>(2, "winograd"));

}  // namespace
}  // namespace tenon::cpu::conv_frames
