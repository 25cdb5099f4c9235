// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <optional>

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

/// How lanes hold rows that lie in one piece.
struct HeldRows {
  int inner, vector, lanes, pieces;
};

/// Rows side by side whose elements alternate become the last axis; how many: 1 where a row is in one piece itself, 0
/// where neither holds.
template <class Params>
int64_t rows_side_by_side(Params& params) {
  if (params.x_step == 1 && params.y_step == 1) return 1;
  for (size_t at = 0; at < most_row_axes; ++at) {
    const int64_t size = params.dims[at];
    if (size < 2 || (size & (size - 1)) || params.xs[at] != 1 || params.ys[at] != 1 || params.x_step != size ||
        params.y_step != size)
      continue;
    std::rotate(params.dims + at, params.dims + at + 1, params.dims + most_row_axes);
    std::rotate(params.xs + at, params.xs + at + 1, params.xs + most_row_axes);
    std::rotate(params.ys + at, params.ys + at + 1, params.ys + most_row_axes);
    return size;
  }
  return 0;
}

/// None where rows lie elsewhere or are too long.
template <class Params>
std::optional<HeldRows> held_rows(const Problem& problem, Params& params) {
  constexpr int most_lanes = 32, most_held = 64;  // floats of a lane
  const int64_t inner = rows_side_by_side(params), count = inner * params.length;
  if (inner == 0 || !problem.inputs[0].aligned || !problem.outputs[0].aligned) return std::nullopt;
  int64_t vector = 16 / static_cast<int64_t>(size_of(problem.inputs[0].dtype));
  const size_t axes = inner > 1 ? most_row_axes - 1 : most_row_axes;  // that the rows in one piece lie along
  const auto whole = [&](const i64(&strides)[most_row_axes]) {
    return std::all_of(strides, strides + axes, [&](int64_t stride) { return stride % vector == 0; });
  };
  while (vector > 1 && (count % vector || !whole(params.xs) || !whole(params.ys))) vector /= 2;
  // Short rows are one lane's; others are shared until two vectors, or more where lanes end, hold them.
  const int64_t vectors = ceil_div(count, vector), few = std::max<int64_t>(2, count <= 32 ? count / vector : 0);
  int64_t lanes = std::max<int64_t>(1, inner / vector);
  while (lanes < most_lanes && ceil_div(vectors, lanes) > few) lanes *= 2;
  const int64_t pieces = ceil_div(vectors, lanes);
  if (lanes > most_lanes || pieces * vector > most_held) return std::nullopt;
  return HeldRows{static_cast<int>(inner), static_cast<int>(vector), static_cast<int>(lanes), static_cast<int>(pieces)};
}

}  // namespace tenon::cuda
