#pragma once
#include "backends/cuda/kernel.h"

namespace tenon::cuda {

/// A dense tensor of floats as `outer` x `inner` lines of `size` numbers along the node's axis.
struct Lines {
  int64_t outer = 1, size = 1, inner = 1;
};

/// Why the node's first input is no such tensor, or a result no dense one; nullptr where all is well.
inline const char* lines_of(const Problem& problem, int64_t default_axis, Lines& lines) {
  const Operand& x = problem.inputs[0];
  if (!is_real(x.dtype)) return "only f32, f16 and bf16";
  if (!x.dense()) return "the input is a view";
  for (const Operand& y : problem.outputs)
    if (y && !y.dense()) return "a result is a view";
  const auto rank = static_cast<int64_t>(x.dims.rank());
  int64_t axis = problem.node->integer("axis", default_axis);
  if (axis < 0) axis += rank;
  if (rank == 0 || axis < 0 || axis >= rank) return "it has no axis";
  lines = {};
  for (int64_t at = 0; at < rank; ++at)
    (at < axis ? lines.outer : at > axis ? lines.inner : lines.size) *= x.dims[static_cast<size_t>(at)];
  return x.dims.elements() == 0 || lines.size >= int64_t{1} << 31 || lines.outer * lines.inner >= int64_t{1} << 31
             ? "too large, or empty"
             : nullptr;
}

}  // namespace tenon::cuda
