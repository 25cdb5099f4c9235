// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/depthwise/depthwise.h"

namespace tenon::cuda::depthwise {
namespace {

/// Channels a thread may take at once: 8 bytes of f16, 16 of f32, or one.
std::vector<int> vectors(const Problem& problem, const ConvShape& shape) {
  std::vector<int> list;
  for (const int vector : {8, 4, 2, 1}) {
    const auto fits = [&](const Operand& operand, const int64_t(&strides)[4]) {
      const size_t bytes = size_of(operand.dtype) * static_cast<size_t>(vector);
      bool good = bytes <= 16 && (vector == 1 || operand.aligned);
      for (int at = 0; at < 3; ++at) good = good && strides[at] % vector == 0;
      return good;
    };
    if (shape.in_c % vector == 0 && fits(problem.inputs[0], shape.x) && fits(problem.outputs[0], shape.y) &&
        (!has_residual(problem) || fits(problem.inputs[3], shape.residual)))
      list.push_back(vector);
  }
  return list;
}

Reason refuses(const Problem& problem, const Properties&) {
  ConvShape shape{};
  return depthwise_shape(problem, shape);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  ConvShape shape{};
  conv_shape(problem, shape);
  std::vector<Tactic> list;
  for (const int vector : vectors(problem, shape))
    for (const int strip : {4, 2, 1}) {
      if (list.size() >= 6 || (strip > shape.out_w && strip > 1)) continue;
      Source source = source_from({"depthwise.cuh", "depthwise.cu"}, epilogue_defines(conv_epilogue(problem)));
      for (const std::string& word :
           {define_type("ELEMENT", shape.x_type), define_type("TY", shape.y_type), define("VEC", vector),
            define("TW", strip), define("KH", shape.kernel_h), define("KW", shape.kernel_w),
            define("SH", shape.stride_h), define("SW", shape.stride_w), define("DH", shape.dilation_h),
            define("DW", shape.dilation_w)})
        source.defines.push_back(word);
      list.push_back({"depthwise " + std::to_string(vector) + "x" + std::to_string(strip), {source}, {vector, strip}});
    }
  return list;
}

class DepthwiseStep : public DepthwiseBase {
 public:
  DepthwiseStep(const Problem& problem, const ConvShape& shape, Device& device, const Tactic& tactic)
      : DepthwiseBase(problem, shape, device, tactic.sources[0], "depthwise") {
    const int vector = tactic.numbers[0], strip = tactic.numbers[1];
    const int64_t strips = ceil_div(shape.out_w, strip);
    params_.strips = static_cast<int>(strips);
    params_.count = static_cast<int>(shape.batch * shape.out_h * strips * shape.in_c / vector);
    grid_ = {ceil_div(params_.count, 128), 1, 1, 128, 0};
  }
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  ConvShape shape{};
  conv_shape(problem, shape);
  return std::make_unique<DepthwiseStep>(problem, shape, device, tactic);
}

const KernelRegistrar registered({"Conv", "depthwise", 3, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::depthwise
