// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/convolution/conv_few_params.h"
#include "backends/cuda/convolution/conv_step.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::conv_few {
namespace {

using Params = ConvFewParams;

constexpr int64_t most_results = 4, most_channels = 256;

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  if (const Reason reason = conv_shape(problem, shape)) return reason;
  if (!shape.is_point() || shape.stride_h != 1 || shape.stride_w != 1 || shape.groups != 1) return Reason::pointwise;
  if (shape.out_c > most_results) return {Reason::too_many, most_results, "output channels"};
  if (shape.in_c > most_channels) return {Reason::too_many, most_channels, "channels"};
  if (shape.x[3] != 1 || shape.y[3] != 1 || (has_residual(problem) && shape.residual[3] != 1))
    return {Reason::not_contiguous, "channels"};
  return {};
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  ConvShape shape{};
  conv_shape(problem, shape);
  Source source{"conv_few.cu", epilogue_defines(conv_epilogue(problem)), ""};
  for (const std::string& word :
       {define_type("TX", shape.x_type), define_type("TY", shape.y_type), define("VEC", vector_of(problem, shape)),
        define("OUT", shape.out_c), define("CIN", shape.in_c)})
    source.defines.push_back(word);
  return {{"few", {source}, {}}};
}

class FewStep : public ConvStep<Params> {
 public:
  FewStep(const Problem& problem, Device& device, const Tactic& tactic)
      : ConvStep(device, tactic.sources[0], "conv_few") {
    ConvShape shape{};
    conv_shape(problem, shape);
    std::vector<float> packed = conv_weights(problem, shape);
    const size_t bias_at = packed.size() * sizeof(float);
    const std::vector<float> bias = conv_bias(problem, shape);
    packed.insert(packed.end(), bias.begin(), bias.end());
    const Address weights_at = pack(packed.data(), packed.size() * sizeof(float));
    const ops::Epilogue epilogue = conv_epilogue(problem);
    residual_ = has_residual(problem) && epilogue.residual != ops::Residual::none;
    params_.w = weights_at, params_.bias = weights_at + bias_at;
    for (int at = 0; at < 3; ++at)
      params_.xs[at] = shape.x[at], params_.ys[at] = shape.y[at], params_.rs[at] = shape.residual[at];
    params_.out_h = static_cast<int>(shape.out_h), params_.out_w = static_cast<int>(shape.out_w);
    params_.pixels = static_cast<int>(shape.pixels());
    params_.alpha = epilogue.alpha, params_.beta = epilogue.beta;
    grid_ = {ceil_div(shape.pixels(), 128), 1, 1, 128, 0};
  }
};

const KernelRegistrar registered({"Conv", "few", 3, refuses, tactics, make_step<FewStep>});

}  // namespace
}  // namespace tenon::cuda::conv_few
