// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/correlate.h"
#include "backends/kernel.h"

namespace tenon::cpu::conv_planes {
namespace {

using backends::Problem;
using backends::Reason;

/// Planes under a window each, as trackers compare what they look for with what they see: by weights of a run.
class ConvPlanesStep : public backends::Step {
 public:
  explicit ConvPlanesStep(const Problem& problem)
      : x_(problem.inputs[0].dims),
        w_(problem.inputs[1].dims),
        y_(problem.outputs[0].dims),
        strides_(problem.node->integers("strides", {1, 1})),
        dilations_(problem.node->integers("dilations", {1, 1})),
        has_bias_(problem.inputs.size() > 2 && problem.inputs[2]),
        kernel_(correlate(isa_for(problem))) {}

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(y_[0] * y_[1], begin, end);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t output = at % y_[1], plane = at / y_[1] * x_[1] + output / (y_[1] / x_[1]);
      kernel_({reinterpret_cast<const float*>(inputs[0]) + plane * x_[2] * x_[3],
               reinterpret_cast<const float*>(inputs[1]) + output * w_[2] * w_[3],
               reinterpret_cast<float*>(outputs[0]) + at * y_[2] * y_[3], x_[3], y_[3], y_[2], y_[3], w_[2], w_[3],
               strides_[0], dilations_[0], dilations_[1],
               has_bias_ ? reinterpret_cast<const float*>(inputs[2])[output] : 0.f});
    }
  }

 private:
  Dims x_, w_, y_;
  std::vector<int64_t> strides_, dilations_;
  bool has_bias_;
  Correlate kernel_;
};

Reason refuses(const Problem& problem) {
  const ir::Node& node = *problem.node;
  if (!backends::all_of(problem, DType::f32)) return {Reason::element_type, "elements", "f32"};
  const Dims &x = problem.inputs[0].dims, &w = problem.inputs[1].dims, &y = problem.outputs[0].dims;
  if (node.has("layout") || x.rank() != 4 || w.rank() != 4 || y.rank() != 4) return {Reason::layout, "NCHW"};
  if (node.has("activation") || problem.inputs.size() > 3) return {Reason::activation, "none"};
  if (x.elements() == 0 || y.elements() == 0) return Reason::empty;
  if (node.integer("group", 1) != x[1] || w[1] != 1 || y[1] % x[1] != 0) return Reason::not_depthwise;
  const auto pads = node.integers("pads", {0, 0, 0, 0});
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  if (padded || node.text("auto_pad", "NOTSET") != "NOTSET") return {Reason::padding, "none"};
  if (node.integers("strides", {1, 1})[1] != 1) return {Reason::strides, "1 along rows"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<ConvPlanesStep>(problem); }

const backends::KernelRegistrar registered({"Conv", "planes", 1, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::conv_planes
