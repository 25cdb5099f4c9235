// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/convolution/conv_direct_params.h"
#include "backends/cuda/convolution/conv_step.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::conv_direct {
namespace {

using Params = ConvDirectParams;

class DirectStep : public ConvStep<Params> {
 public:
  DirectStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "conv_direct") {
    ConvShape shape{};
    conv_shape(problem, shape);
    const int64_t depth = shape.depth(), out = shape.channels_out();
    const std::vector<float> weights = conv_weights(problem, shape), bias = conv_bias(problem, shape);
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

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const Reason reason = conv_shape(problem, shape)) return reason;
  return ceil_div(shape.channels_out(), 64) * shape.groups > 65535 ? Reason(Reason::too_many, 65535, "groups")
                                                                   : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Source source = source_from({"direct.cuh", "conv_direct.cu"}, epilogue_defines(conv_epilogue(problem)));
  source.defines.push_back(define_type("TX", problem.inputs[0].dtype));
  source.defines.push_back(define_type("TY", problem.outputs[0].dtype));
  return {{"direct", {source}, {}}};
}

const KernelRegistrar registered({"Conv", "Gemm", "MatMul"},
                                 {"", "direct", 0, refuses, tactics, make_step<DirectStep>});

}  // namespace
}  // namespace tenon::cuda::conv_direct
