// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backends/cuda/movement/scatter_params.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::scatter {
namespace {

constexpr size_t most_axes = 6;

using Params = ScatterParams;

/// As scatter.cu counts them.
constexpr std::array reductions = {"none", "add", "mul", "max", "min"};

int64_t reduction_of(const Problem& problem) {
  const std::string name = problem.node->text("reduction", "none");
  return std::find(reductions.begin(), reductions.end(), name) - reductions.begin();
}

bool by_tuples(const Problem& problem) { return ops::has_trait(problem.node->op, ops::Trait::tuples); }

/// Along which elements are scattered.
size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis);
}

/// Where updates are reduced, each place looks for its own among all, or among those along its axis, in their order:
/// the result is the same in every run.
double compared(const Problem& problem) {
  const Dims &x = problem.inputs[0].dims, &at = problem.inputs[1].dims;
  if (!by_tuples(problem)) return static_cast<double>(x.elements()) * static_cast<double>(at[axis_of(problem)]);
  const int64_t tuples = at.elements() / at.back(), slice = problem.inputs[2].dims.elements() / tuples;
  return static_cast<double>(x.elements() / slice * ceil_div(slice, 32)) * static_cast<double>(tuples);
}
constexpr double most_compared = 1 << 30;

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &updates = problem.inputs[2], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (at.dtype != DType::i64 && at.dtype != DType::i32) return {Reason::element_type, "indices", "i32 or i64"};
  if (reduction_of(problem) && !is_real(x.dtype) && x.dtype != DType::i64 && x.dtype != DType::i32)
    return {Reason::element_type, "elements", "f32, f16, bf16, i64 or i32 where they are reduced"};
  if (!x.dense() || !at.dense() || !updates.dense() || !y.dense()) return {Reason::view, "an operand"};
  if (x.dims.rank() > most_axes) return {Reason::too_many, most_axes, "axes"};
  if (updates.dims.elements() == 0) return Reason::empty;
  return reduction_of(problem) && compared(problem) > most_compared ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const int64_t reduction = reduction_of(problem);
  const DType type = problem.inputs[0].dtype;
  const std::string element = reduction ? type_name(type) : bits_name(size_of(type));
  const std::string index = problem.inputs[1].dtype == DType::i64 ? "i64" : "int";
  std::vector<std::string> defines = {"ELEMENT=" + element, "INDEX=" + index};
  if (!reduction) return {{"scatter", {{"scatter.cu", defines, ""}}, {}}};
  defines.push_back("REDUCTION=" + std::to_string(reduction));
  defines.push_back(std::string("WIDE=") + (is_real(type) ? "float" : type_name(type)));
  defines.push_back(std::string("WHOLE=") + (is_real(type) ? "0" : "1"));
  return {{"reduce", {{"scatter.cu", defines, ""}}, {}}};
}

Params params_of(const Problem& problem) {
  const Operand &x = problem.inputs[0], &updates = problem.inputs[2];
  const size_t rank = x.dims.rank();
  Params params{};
  params.slice = 1, params.count = updates.dims.elements(), params.all = x.dims.elements();
  if (by_tuples(problem)) {
    params.picked = static_cast<int>(problem.inputs[1].dims.back());
    for (size_t axis = 0; axis < rank; ++axis) {
      if (axis >= static_cast<size_t>(params.picked)) params.slice *= x.dims[axis];
      params.sizes[axis] = x.dims[axis], params.steps[axis] = x.strides[axis];
    }
    return params;
  }
  const size_t gap = most_axes - rank;
  params.picked = static_cast<int>(gap + axis_of(problem));
  for (size_t at = 0; at < most_axes; ++at) {
    const bool real = at >= gap;
    params.sizes[at] = real ? x.dims[at - gap] : 1, params.steps[at] = real ? x.strides[at - gap] : 0;
    params.dims[at] = real ? static_cast<unsigned>(updates.dims[at - gap]) : 1;
  }
  return params;
}

Params at_addresses(Params params, const Launch& at) {
  params.x = at.inputs[0], params.at = at.inputs[1], params.updates = at.inputs[2], params.y = at.outputs[0];
  return params;
}

/// A copy where the result lies elsewhere, and the updates.
class ScatterStep : public Step {
 public:
  ScatterStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        keep_(device.function(tactic.sources[0], "keep")),
        scatter_(device.function(tactic.sources[0], by_tuples(problem) ? "scatter_nd" : "scatter_elements")),
        params_(params_of(problem)) {}
  void enqueue(const Launch& at) const override {
    const Params params = at_addresses(params_, at);
    if (params.x != params.y) launch(device_, keep_, grid_for(params.all), at, params);
    launch(device_, scatter_, grid_for(params.count), at, params);
  }

 private:
  Device& device_;
  Function keep_, scatter_;
  Params params_;
};

/// Each place with its updates: a warp for 32 elements of a slice, or a thread for an element.
class ReduceStep : public Step {
 public:
  ReduceStep(const Problem& problem, Device& device, const Tactic& tactic)
      : device_(device),
        reduce_(device.function(tactic.sources[0], by_tuples(problem) ? "reduce_nd" : "reduce_elements")),
        params_(params_of(problem)),
        threads_(by_tuples(problem) ? params_.all / params_.slice * ceil_div(params_.slice, 32) * 32 : params_.all) {}
  void enqueue(const Launch& at) const override {
    launch(device_, reduce_, grid_for(threads_), at, at_addresses(params_, at));
  }

 private:
  Device& device_;
  Function reduce_;
  Params params_;
  int64_t threads_;
};

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  if (reduction_of(problem)) return std::make_unique<ReduceStep>(problem, device, tactic);
  return std::make_unique<ScatterStep>(problem, device, tactic);
}

const KernelRegistrar registered({"ScatterND", "ScatterElements"}, {"", "scatter", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::scatter
