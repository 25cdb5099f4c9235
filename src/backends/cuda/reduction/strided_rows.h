// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cuda/runtime/kernel.h"

namespace tenon::cuda {

constexpr size_t most_row_axes = 4;

/// Fills rows, length, x_step, y_step, xs, ys and dims of a kernel's parameters: the lines of input and output along
/// the node's axis. False where they lie on too many axes.
template <class Params>
bool set_strided_rows(const Problem& problem, Params& params) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  int64_t axis = problem.node->integer("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(x.dims.rank());
  const auto own = static_cast<size_t>(axis);
  params = {};
  params.rows = 1, params.length = x.dims[own], params.x_step = x.strides[own], params.y_step = y.strides[own];
  for (auto& size : params.dims) size = 1;
  // From the innermost axis on, joined with the one before where both tensors run on.
  size_t at = most_row_axes;
  for (size_t k = x.dims.rank(); k-- > 0;) {
    if (k == own || x.dims[k] == 1) continue;
    params.rows *= x.dims[k];
    const bool joins = at < most_row_axes && x.strides[k] == params.xs[at] * params.dims[at] &&
                       y.strides[k] == params.ys[at] * params.dims[at];
    if (joins) {
      params.dims[at] *= static_cast<unsigned>(x.dims[k]);
      continue;
    }
    if (at == 0) return false;
    --at;
    params.dims[at] = static_cast<unsigned>(x.dims[k]);
    params.xs[at] = x.strides[k], params.ys[at] = y.strides[k];
  }
  return true;
}

}  // namespace tenon::cuda
