// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/movement/gather_params.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::gather {
namespace {

using Params = GatherParams;

Params shape_of(const Problem& problem) {
  const Dims& dims = problem.inputs[0].dims;
  int64_t axis = problem.node->integer("axis", 0);
  if (axis < 0) axis += static_cast<int64_t>(dims.rank());
  Params params{0,
                0,
                0,
                dims[static_cast<size_t>(axis)],
                1,
                problem.inputs[1].dims.elements(),
                problem.outputs[0].dims.elements()};
  for (size_t at = static_cast<size_t>(axis) + 1; at < dims.rank(); ++at) params.inner *= dims[at];
  return params;
}

template <class T>
bool all_inside(const Tensor& indices, int64_t size) {
  for (int64_t at = 0; at < indices.elements(); ++at)
    if (const int64_t index = indices.data<T>()[at]; index < -size || index >= size) return false;
  return true;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &at = problem.inputs[1], &y = problem.outputs[0];
  if (!*bits_name(size_of(x.dtype))) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  if (at.dtype != DType::i64 && at.dtype != DType::i32) return {Reason::element_type, "indices", "i32 or i64"};
  if (!x.dense() || !at.dense() || !y.dense()) return {Reason::view, "an operand"};
  const int64_t size = shape_of(problem).size;
  if (size == 0) return Reason::empty;
  if (at.constant &&
      !(at.dtype == DType::i64 ? all_inside<int64_t>(at.constant, size) : all_inside<int32_t>(at.constant, size)))
    return Reason::out_of_range;
  return {};
}

/// Elements that are moved as one.
int64_t together(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  if (!x.aligned || !y.aligned) return 1;
  int64_t count = 16 / size;
  while (shape_of(problem).inner % count) count /= 2;
  return count;
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const size_t bytes = size_of(problem.inputs[0].dtype) * static_cast<size_t>(together(problem));
  const std::string type = bytes == 16 ? "uint4" : bits_name(bytes);
  const char* index = problem.inputs[1].dtype == DType::i64 ? "i64" : "int";
  const char* count = shape_of(problem).count < int64_t{1} << 31 ? "u32" : "i64";
  Source source{"gather.cu", {}, ""};
  source.defines = {"ELEMENT=" + type, std::string("INDEX=") + index, std::string("COUNT=") + count};
  return {{"gather", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params = shape_of(problem);
  params.inner /= together(problem), params.count /= together(problem);
  return simple_step<2>(device, tactic, "gather", params, grid_for(params.count));
}

const KernelRegistrar registered({"Gather", "gather", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::gather
