// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/conv_direct_params.h"
#include "backends/cuda/convolution/conv_step.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::conv_direct {
namespace {

using Params = ConvDirectParams;

/// A transposed convolution as one of an input whose pixels lie strides apart, with zeros between them, and of weights
/// that lie the other way round.
Reason transposed_shape(const Problem& problem, ConvShape& shape) {
  const ir::Node& node = *problem.node;
  const Operand &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (!is_real(x.dtype) || !is_real(y.dtype)) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (!w.constant || w.dtype != DType::f32) return {Reason::not_constant, "the weights, of f32,"};
  if (has_residual(problem) && problem.inputs[3].dtype != y.dtype)
    return {Reason::element_type, "the residual", "of the output's type"};
  if (const Reason reason = conv_geometry(problem, shape)) return reason;
  const std::string mode = node.text("auto_pad", "NOTSET");
  const auto pads = node.integers("pads", {0, 0, 0, 0}), extra = node.integers("output_padding", {0, 0});
  const bool derived = node.has("output_shape") || mode.starts_with("SAME");
  const auto pad_of = [&](size_t axis, int64_t in, int64_t out, int stride, int reach) {
    if (!derived) return reach - static_cast<int>(mode == "VALID" ? 0 : pads[axis]);
    const int64_t total = std::max<int64_t>(0, (in - 1) * stride + extra[axis] + reach + 1 - out);
    return reach - static_cast<int>(mode == "SAME_UPPER" ? total / 2 : total - total / 2);
  };
  shape.pad_top = pad_of(0, shape.in_h, shape.out_h, shape.stride_h, (shape.kernel_h - 1) * shape.dilation_h);
  shape.pad_left = pad_of(1, shape.in_w, shape.out_w, shape.stride_w, (shape.kernel_w - 1) * shape.dilation_w);
  shape.stride_h = shape.stride_w = 1;
  return {};
}
/// As conv_weights, of weights [channels, results of a group, kernel...].
std::vector<float> transposed_weights(const Problem& problem, const ConvShape& shape) {
  const float* from = problem.inputs[1].constant.data<float>();
  const int64_t taps = int64_t{shape.kernel_h} * shape.kernel_w, c_in = shape.channels_in(), out = shape.channels_out();
  std::vector<float> to(static_cast<size_t>(shape.out_c * shape.depth()));
  for (int64_t n = 0; n < shape.out_c; ++n)
    for (int64_t c = 0; c < c_in; ++c)
      for (int64_t tap = 0; tap < taps; ++tap)
        to[n * shape.depth() + (taps - 1 - tap) * c_in + c] = from[((n / out * c_in + c) * out + n % out) * taps + tap];
  return to;
}

template <bool transposed>
Reason shape_of(const Problem& problem, ConvShape& shape) {
  return transposed ? transposed_shape(problem, shape) : conv_shape(problem, shape);
}

template <bool transposed>
class DirectStep : public ConvStep<Params> {
 public:
  DirectStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "conv_direct") {
    ConvShape shape{};
    shape_of<transposed>(problem, shape);
    const int64_t depth = shape.depth(), out = shape.channels_out();
    const std::vector<float> weights = transposed ? transposed_weights(problem, shape) : conv_weights(problem, shape),
                             bias = conv_bias(problem, shape);
    std::vector<float> packed(weights.size() + bias.size());
    for (int64_t n = 0; n < shape.out_c; ++n)
      for (int64_t k = 0; k < depth; ++k) packed[(n / out * depth + k) * out + n % out] = weights[n * depth + k];
    std::copy(bias.begin(), bias.end(), packed.begin() + static_cast<ptrdiff_t>(weights.size()));
    const Address weights_at = pack(packed.data(), packed.size() * sizeof(float));
    const ops::Epilogue epilogue = conv_epilogue(problem);
    residual_ = epilogue.residual != ops::Residual::none;
    const auto size = [](int64_t value) { return static_cast<int>(value); };
    params_ = {0,
               weights_at,
               weights_at + weights.size() * sizeof(float),
               0,
               0,
               {},
               {},
               {},
               size(shape.in_h),
               size(shape.in_w),
               size(shape.out_h),
               size(shape.out_w),
               size(shape.channels_in()),
               size(out),
               shape.kernel_w,
               shape.stride_h,
               shape.stride_w,
               shape.dilation_h,
               shape.dilation_w,
               shape.pad_top,
               shape.pad_left,
               size(shape.pixels()),
               size(depth),
               size(ceil_div(out, 64)),
               epilogue.alpha,
               epilogue.beta};
    for (int at = 0; at < 4; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    grid_ = {ceil_div(shape.pixels(), 64), params_.tiles * shape.groups, 1, 256, 0};
  }
};

template <bool transposed>
Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const Reason reason = shape_of<transposed>(problem, shape)) return reason;
  return ceil_div(shape.channels_out(), 64) * shape.groups > 65535 ? Reason(Reason::too_many, 65535, "groups")
                                                                   : Reason();
}

template <bool transposed>
std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source = source_from({"direct.cuh", "conv_direct.cu"}, epilogue_defines(conv_epilogue(problem)));
  source.defines.push_back(define_type("TX", problem.inputs[0].dtype));
  source.defines.push_back(define_type("TY", problem.outputs[0].dtype));
  if (transposed) {
    const auto strides = problem.node->integers("strides", {1, 1});
    source.defines.push_back(define("UP_H", strides[0]));
    source.defines.push_back(define("UP_W", strides[1]));
  }
  return {{"direct", {source}, {}}};
}

const KernelRegistrar registered({"Conv", "Gemm", "MatMul"},
                                 {"", "direct", 0, refuses<false>, tactics<false>, make_step<DirectStep<false>>});
const KernelRegistrar transposed({"ConvTranspose", "direct", 0, refuses<true>, tactics<true>,
                                  make_step<DirectStep<true>>});

}  // namespace
}  // namespace tenon::cuda::conv_direct
