// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/reduction/pitch_params.h"
#include "backends/cuda/runtime/kernel.h"

namespace tenon::cuda {

/// A dense tensor as `outer` x `inner` lines of `size` numbers along the node's axis.
struct Lines {
  int64_t outer = 1, size = 1, inner = 1;
};

/// The pitch of a tensor whose axes before `axis` run on, and those behind it, too; false of others.
inline bool pitch_of(const Operand& operand, size_t axis, Pitch& pitch) {
  const auto joined = [&](size_t first, size_t last, int64_t& stride) {
    int64_t size = 0;  // of the axes that are joined already, times their stride
    for (size_t at = last; at-- > first;) {
      if (operand.dims[at] == 1) continue;
      if (size == 0) stride = operand.strides[at];
      else if (operand.strides[at] != size) return false;
      size = operand.strides[at] * operand.dims[at];
    }
    return true;
  };
  pitch = {0, operand.strides[axis], 0};
  return joined(0, axis, pitch.outer) && joined(axis + 1, operand.dims.rank(), pitch.inner);
}

/// Why the node's first input is no such tensor of floats, or of integers where these will do, or a result has no
/// pitch; nullptr where all is well.
inline Reason lines_of(const Problem& problem, int64_t default_axis, Lines& lines, bool dense_results = true,
                       bool integers = false) {
  const Operand& x = problem.inputs[0];
  if (!is_real(x.dtype) && !(integers && (x.dtype == DType::i32 || x.dtype == DType::i64)))
    return {Reason::element_type, "elements", integers ? "f32, f16, bf16, i32 or i64" : "f32, f16 or bf16"};
  if (!x.dense()) return {Reason::view, "the input"};
  for (const Operand& y : problem.outputs)
    if (y && dense_results && !y.dense()) return {Reason::view, "a result"};
  const auto rank = static_cast<int64_t>(x.dims.rank());
  int64_t axis = problem.node->integer("axis", default_axis);
  if (axis < 0) axis += rank;
  if (rank == 0 || axis < 0 || axis >= rank) return {Reason::shape, "the input", "the axis"};
  Pitch pitch;
  for (const Operand& y : problem.outputs)
    if (y && !dense_results && !pitch_of(y, static_cast<size_t>(axis), pitch)) return {Reason::view, "a result"};
  lines = {};
  for (int64_t at = 0; at < rank; ++at)
    (at < axis ? lines.outer : at > axis ? lines.inner : lines.size) *= x.dims[static_cast<size_t>(at)];
  if (x.dims.elements() == 0) return Reason::empty;
  return lines.size >= int64_t{1} << 31 || lines.outer * lines.inner >= int64_t{1} << 31 ? Reason(Reason::too_large)
                                                                                         : Reason();
}

}  // namespace tenon::cuda
