// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/movement/gather_nd_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::gather_nd {
namespace {

constexpr size_t most_indices = 6;

using Params = GatherNdParams;

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (at.dtype != DType::i64 && at.dtype != DType::i32) return {Reason::element_type, "indices", "i32 or i64"};
  if (!x.dense() || !at.dense() || !y.dense()) return {Reason::view, "an operand"};
  if (at.dims.back() > static_cast<int64_t>(most_indices)) return {Reason::too_many, most_indices, "indices"};
  return x.dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const std::string element = bits_name(size_of(problem.inputs[0].dtype));
  const std::string index = problem.inputs[1].dtype == DType::i64 ? "i64" : "int";
  return {{"tuples", {{"gather_nd.cu", {"ELEMENT=" + element, "INDEX=" + index}, ""}}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1];
  const auto batches = static_cast<size_t>(problem.node->integer("batch_dims", 0));
  const auto picked = static_cast<size_t>(at.dims.back());
  Params params{};
  int64_t items = 1;
  for (size_t axis = 0; axis < batches; ++axis) items *= x.dims[axis];
  for (size_t k = 0; k < picked; ++k) params.sizes[k] = x.dims[batches + k], params.steps[k] = x.strides[batches + k];
  params.slice = 1;
  for (size_t axis = batches + picked; axis < x.dims.rank(); ++axis) params.slice *= x.dims[axis];
  params.count = problem.outputs[0].dims.elements();
  params.tuples = at.dims.elements() / static_cast<int64_t>(picked) / items;
  params.batch = x.dims.elements() / items;
  params.picked = static_cast<int>(picked);
  return simple_step<2>(device, tactic, "gather_nd", params, grid_for(params.count));
}

const KernelRegistrar registered({"GatherND", "tuples", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::gather_nd
