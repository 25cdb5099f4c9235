// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/movement/scatter_params.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::scatter {
namespace {

constexpr size_t most_axes = 6;

using Params = ScatterParams;

bool by_tuples(const Problem& problem) { return ops::has_trait(problem.node->op, ops::Trait::tuples); }

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &updates = problem.inputs[2], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (at.dtype != DType::i64 && at.dtype != DType::i32) return {Reason::element_type, "indices", "i32 or i64"};
  if (problem.node->text("reduction", "none") != "none") return Reason::order;
  if (!x.dense() || !at.dense() || !updates.dense() || !y.dense()) return {Reason::view, "an operand"};
  if (x.dims.rank() > most_axes) return {Reason::too_many, most_axes, "axes"};
  return updates.dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const std::string element = bits_name(size_of(problem.inputs[0].dtype));
  const std::string index = problem.inputs[1].dtype == DType::i64 ? "i64" : "int";
  return {{"scatter", {{"scatter.cu", {"ELEMENT=" + element, "INDEX=" + index}, ""}}, {}}};
}

/// A copy where the result lies elsewhere, and the updates.
class ScatterStep : public Step {
 public:
  ScatterStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        keep_(device.function(tactic.sources[0], "keep")),
        scatter_(device.function(tactic.sources[0], by_tuples(problem) ? "scatter_nd" : "scatter_elements")) {
    const Operand &x = problem.inputs[0], &updates = problem.inputs[2];
    const size_t rank = x.dims.rank();
    params_.slice = 1, params_.count = updates.dims.elements(), params_.all = x.dims.elements();
    if (by_tuples(problem)) {
      params_.picked = static_cast<int>(problem.inputs[1].dims.back());
      for (size_t axis = 0; axis < rank; ++axis) {
        if (axis >= static_cast<size_t>(params_.picked)) params_.slice *= x.dims[axis];
        params_.sizes[axis] = x.dims[axis], params_.steps[axis] = x.strides[axis];
      }
      return;
    }
    const int64_t axis = problem.node->integer("axis", 0);
    const size_t gap = most_axes - rank;
    params_.picked =
        static_cast<int>(static_cast<int64_t>(gap) + (axis < 0 ? axis + static_cast<int64_t>(rank) : axis));
    for (size_t at = 0; at < most_axes; ++at) {
      const bool real = at >= gap;
      params_.sizes[at] = real ? x.dims[at - gap] : 1, params_.steps[at] = real ? x.strides[at - gap] : 0;
      params_.dims[at] = real ? static_cast<unsigned>(updates.dims[at - gap]) : 1;
    }
  }
  void enqueue(const Launch& at) const override {
    Params params = params_;
    params.x = at.inputs[0], params.at = at.inputs[1], params.updates = at.inputs[2], params.y = at.outputs[0];
    if (params.x != params.y) launch(device_, keep_, grid_for(params.all), at, params);
    launch(device_, scatter_, grid_for(params.count), at, params);
  }

 private:
  Device& device_;
  Function keep_, scatter_;
  Params params_{};
};

const KernelRegistrar registered({"ScatterND", "ScatterElements"},
                                 {"", "scatter", 1, refuses, tactics, make_step<ScatterStep>});

}  // namespace
}  // namespace tenon::cuda::scatter
