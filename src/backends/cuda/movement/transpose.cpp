// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/movement/transpose_params.h"
#include "backends/cuda/elementwise/map.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::transpose {
namespace {

using Params = TransposeParams;

struct Turn {
  int64_t batch = 1;
  Params params{};
};

/// Whether the permutation comes down to turning the matrices of a batch.
bool turn_of(const Problem& problem, Turn& turn) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  std::vector<int64_t> perm = problem.node->integers("perm");
  if (perm.empty())
    for (size_t axis = x.dims.rank(); axis-- > 0;) perm.push_back(static_cast<int64_t>(axis));
  Map map;
  map.dims = y.dims;
  Dims from = y.strides;
  for (size_t axis = 0; axis < perm.size(); ++axis) from[axis] = x.strides[static_cast<size_t>(perm[axis])];
  map.strides = {from, y.strides};
  map.types = {"u8", "u8"}, map.sizes = {16, 16}, map.aligned = {true, true};
  if (!map.simplify() || map.dims.rank() < 2 || map.dims.rank() > 3) return false;
  const size_t last = map.dims.rank() - 1;
  const Dims &in = map.strides[0], &out = map.strides[1];
  if (in[last - 1] != 1 || out[last] != 1) return false;
  turn.batch = last == 2 ? map.dims[0] : 1;
  Params& p = turn.params;
  p.x_batch = last == 2 ? in[0] : 0, p.y_batch = last == 2 ? out[0] : 0;
  p.rows = static_cast<int>(map.dims[last]), p.columns = static_cast<int>(map.dims[last - 1]);
  p.x_row = in[last], p.y_row = out[last - 1];
  p.tiles_r = static_cast<int>(ceil_div(p.rows, 32)), p.tiles_c = static_cast<int>(ceil_div(p.columns, 32));
  return true;
}

Reason refuses(const Problem& problem, const Properties&) {
  const size_t size = size_of(problem.inputs[0].dtype);
  if (size != 1 && size != 2 && size != 4 && size != 8) return {Reason::element_type, "elements", "1, 2, 4 or 8 bytes"};
  Turn turn;
  return turn_of(problem, turn) ? Reason() : Reason(Reason::form, "transpose of matrices");
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  const size_t size = size_of(problem.inputs[0].dtype);
  const char* word = size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64";
  return {{"turn", {{"transpose.cu", {std::string("WORD=") + word}, ""}}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Turn turn;
  turn_of(problem, turn);
  const Params& params = turn.params;
  return simple_step<1>(device, tactic, "transpose", params,
                        {int64_t{params.tiles_r} * params.tiles_c * turn.batch, 1, 1, 256, 0});
}

const KernelRegistrar registered({"Transpose", "turn", 2, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::transpose
