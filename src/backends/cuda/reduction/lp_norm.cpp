// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/reduction/lp_norm_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/strided_rows.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::lp_norm {
namespace {

using Params = LpNormParams;

constexpr int64_t threads = 256, most_each = 64;  // elements that a thread holds

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (x.dims.rank() == 0) return {Reason::shape, "the input", "an axis"};
  Params params;
  if (!set_strided_rows(problem, params) || params.rows >= int64_t{1} << 31)
    return {Reason::too_many, most_row_axes, "axes of rows"};
  return params.length > threads * most_each ? Reason(Reason::too_large) : Reason();
}

/// Blocks of as many rows as leave each thread 4 to 16 elements or so, where rows are long.
std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Params params;
  set_strided_rows(problem, params);
  const bool across = params.x_step != 1;
  std::vector<Tactic> list;
  const auto add = [&](const std::string& name, int rows, std::vector<std::string> defines) {
    Source source{"lp_norm.cu", std::move(defines), ""};
    source.defines.push_back(define_type("ELEMENT", problem.inputs[0].dtype));
    source.defines.push_back(define("P", problem.node->integer("p", 2)));
    list.push_back({name, {source}, {rows}});
  };
  Params other = params;
  if (const auto held = held_rows(problem, other); held && held->inner == 1)
    add("held", static_cast<int>(threads) / held->lanes,
        {define("LANES", held->lanes), define("PIECES", held->pieces), define("VEC", held->vector),
         define("LENGTH", params.length)});
  for (const int rows : {16, 32, 8, 1}) {
    const int64_t each = ceil_div(params.length, threads / rows);
    if (each > most_each || (rows == 1 && !list.empty())) continue;
    add("norms of " + std::to_string(rows), rows,
        {define("PIECES", 0), define("ROWS", rows), define("EACH", each), define("ACROSS", across)});
  }
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params;
  set_strided_rows(problem, params);
  params.epsilon = problem.node->real("epsilon", 0);
  return simple_step<1>(device, tactic, "lp_norm", params,
                        {ceil_div(params.rows, tactic.numbers[0]), 1, 1, static_cast<int>(threads), 0});
}

const KernelRegistrar registered({"LpNormalization", "norms", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::lp_norm
