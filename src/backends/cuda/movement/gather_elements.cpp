// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/movement/gather_elements_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::gather_elements {
namespace {

constexpr size_t most_axes = 6;

using Params = GatherElementsParams;

size_t axis_of(const Problem& problem) {
  const int64_t axis = problem.node->integer("axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(problem.inputs[0].dims.rank()) : axis);
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (at.dtype != DType::i64 && at.dtype != DType::i32) return {Reason::element_type, "indices", "i32 or i64"};
  if (x.dims.rank() > most_axes) return {Reason::too_many, most_axes, "axes"};
  if (x.dims.rank() == 0) return {Reason::shape, "the input", "an axis"};
  if (x.dims.elements() == 0) return Reason::empty;
  return y.dims.elements() >= int64_t{1} << 31 ? Reason(Reason::too_large) : Reason();
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const char* type = bits_name(size_of(problem.inputs[0].dtype));
  const char* index = problem.inputs[1].dtype == DType::i64 ? "i64" : "int";
  return {{"pick", {{"gather_elements.cu", {std::string("ELEMENT=") + type, std::string("INDEX=") + index}, ""}}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &y = problem.outputs[0];
  const size_t gap = most_axes - x.dims.rank(), picked = axis_of(problem);
  Params params{};
  for (size_t axis = 0; axis < most_axes; ++axis) {
    params.dims[axis] = 1;
    if (axis < gap) continue;
    const size_t own = axis - gap;
    params.dims[axis] = static_cast<unsigned>(y.dims[own]);
    params.xs[axis] = own == picked ? 0 : x.strides[own];
    params.as[axis] = at.strides[own], params.ys[axis] = y.strides[own];
  }
  params.size = x.dims[picked], params.step = x.strides[picked];
  params.count = static_cast<unsigned>(y.dims.elements());
  return simple_step<2>(device, tactic, "gather_elements", params, grid_for(params.count));
}

const KernelRegistrar registered({"GatherElements", "pick", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::gather_elements
