// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "backends/cuda/reduction/softmax_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/strided_rows.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::softmax {
namespace {

using Params = SoftmaxParams;

constexpr int threads = 256, most_lanes = 32, most_held = 64;  // floats of a lane

/// Whether neighbours of a row lie side by side.
bool is_inner(const Params& params) { return params.x_step == 1 && params.y_step == 1; }

/// Lanes that share a row that is read three times.
int lanes_of(const Params& params) {
  int lanes = is_inner(params) ? 4 : 1;
  while (is_inner(params) && lanes < params.length && lanes < most_lanes) lanes *= 2;
  return lanes;
}

/// How lanes hold rows that lie in one piece.
struct Held {
  int inner, vector, lanes, pieces;
};

/// Rows side by side whose elements alternate become the last axis; how many: 1 where a row is in one piece itself, 0
/// where neither holds.
int64_t rows_side_by_side(Params& params) {
  if (is_inner(params)) return 1;
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
std::optional<Held> held(const Problem& problem, Params& params) {
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
  return Held{static_cast<int>(inner), static_cast<int>(vector), static_cast<int>(lanes), static_cast<int>(pieces)};
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (x.dims.rank() == 0) return {Reason::shape, "the input", "an axis"};
  Params params;
  return set_strided_rows(problem, params) && params.rows < int64_t{1} << 31
             ? Reason()
             : Reason(Reason::too_many, most_row_axes, "axes of rows");
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Params params;
  set_strided_rows(problem, params);
  std::vector<Tactic> list;
  const auto add = [&](const char* name, int lanes, int inner, std::vector<std::string> defines) {
    Source source{"softmax.cu", std::move(defines), ""};
    for (const std::string& word : {define_type("ELEMENT", problem.inputs[0].dtype), define("LANES", lanes),
                                    define("LOG", ops::has_trait(problem.node->op, ops::Trait::logarithm))})
      source.defines.push_back(word);
    list.push_back({name, {source}, {lanes, inner}});
  };
  Params other = params;
  if (const auto in = held(problem, other))
    add("held", in->lanes, in->inner,
        {define("PIECES", in->pieces), define("VEC", in->vector), define("INNER", in->inner),
         define("LENGTH", params.length)});
  add("softmax", lanes_of(params), 0, {define("PIECES", 0)});
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params{};
  set_strided_rows(problem, params);
  const int lanes = tactic.numbers[0], inner = tactic.numbers[1];
  if (inner > 0) rows_side_by_side(params);
  const int64_t groups = params.rows / std::max(inner, 1);
  return simple_step<1>(device, tactic, "softmax", params, {ceil_div(groups, threads / lanes), 1, 1, threads, 0});
}

const KernelRegistrar registered({"Softmax", "LogSoftmax"}, {"", "softmax", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::softmax
