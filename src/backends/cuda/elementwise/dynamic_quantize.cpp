// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/elementwise/dynamic_quantize_params.h"
#include "backends/cuda/convolution/convolution.h"

namespace tenon::cuda::dynamic_quantize {
namespace {

using Params = DynamicQuantizeParams;

constexpr int64_t threads = 256, most_blocks = 512, pair_bytes = 8;

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  return x.dense() && y.dense() ? Reason() : Reason(Reason::view, "an operand");
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const bool wide = x.aligned && y.aligned && x.dims.elements() % 4 == 0;
  std::vector<Tactic> list;
  for (const int vector : {4, 1})
    if (vector == 1 || wide)
      list.push_back(
          {"range " + std::to_string(vector), {{"dynamic_quantize.cu", {define("VEC", vector)}, ""}}, {vector}});
  return list;
}

class DynamicQuantizeStep : public Step {
 public:
  DynamicQuantizeStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        ends_(device.function(tactic.sources[0], "ends")),
        quantize_(device.function(tactic.sources[0], "dynamic_quantize")) {
    params_.count = problem.inputs[0].dims.elements();
    params_.blocks =
        static_cast<int>(std::clamp<int64_t>(ceil_div(params_.count, threads * tactic.numbers[0] * 2), 1, most_blocks));
    for (size_t at = 1; at < 3; ++at) wants_[at] = at < problem.outputs.size() && problem.outputs[at];
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(params_.blocks * pair_bytes); }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.y = at.outputs[0], params.parts = at.workspace;
    if (wants_[1]) params.scale = at.outputs[1];
    if (wants_[2]) params.zero = at.outputs[2];
    const Grid grid{params_.blocks, 1, 1, threads, 0};
    launch(device_, ends_, grid, at, params);
    launch(device_, quantize_, grid, at, params);
  }

 private:
  Device& device_;
  Function ends_, quantize_;
  Params params_{};
  bool wants_[3] = {};
};

const KernelRegistrar registered({"DynamicQuantizeLinear", "range", 1, refuses, tactics,
                                  make_step<DynamicQuantizeStep>});

}  // namespace
}  // namespace tenon::cuda::dynamic_quantize
