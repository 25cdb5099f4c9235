// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cuda/reduction/softmax_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/strided_rows.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::softmax {
namespace {

using Params = SoftmaxParams;

constexpr int threads = 256, most_lanes = 32, most_threads = 1024;
constexpr int64_t least_of_block = 1024;  // elements of a row that a block shares
constexpr int64_t least_apart = 32;       // and of one whose elements lie apart

/// Whether neighbours of a row lie side by side.
bool is_inner(const Params& params) { return params.x_step == 1 && params.y_step == 1; }

/// Lanes that share a row that is read three times.
int lanes_of(const Params& params) {
  int lanes = is_inner(params) ? 4 : 1;
  while (is_inner(params) && lanes < params.length && lanes < most_lanes) lanes *= 2;
  return lanes;
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
  const auto add = [&](const std::string& name, int lanes, int inner, std::vector<std::string> defines, int side = 1,
                       int all = threads) {
    Source source{"softmax.cu", std::move(defines), ""};
    for (const std::string& word :
         {define_type("ELEMENT", problem.inputs[0].dtype), define("LANES", lanes), define("SIDE", side),
          define("THREADS", all), define("LOG", ops::has_trait(problem.node->op, ops::Trait::logarithm))})
      source.defines.push_back(word);
    list.push_back({name, {source}, {lanes, inner, side, all}});
  };
  Params other = params;
  if (const auto in = held_rows(problem, other))
    add("held", in->lanes, in->inner,
        {define("PIECES", in->pieces), define("VEC", in->vector), define("INNER", in->inner),
         define("LENGTH", params.length)});
  if (!is_inner(params) && params.length >= least_apart)
    for (const int side : {8, 16, 32}) {
      const int all = params.length * side >= 4 * most_threads ? most_threads : threads;
      add("side by side " + std::to_string(side), all / side, 0, {define("PIECES", 0)}, side, all);
    }
  add("softmax", lanes_of(params), 0, {define("PIECES", 0)});
  if (is_inner(params) && params.length >= least_of_block) add("block", threads, 0, {define("PIECES", 0)});
  return list;
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params{};
  set_strided_rows(problem, params);
  const int lanes = tactic.numbers[0], inner = tactic.numbers[1], side = tactic.numbers[2], all = tactic.numbers[3];
  if (inner > 0) rows_side_by_side(params);
  const int64_t groups = params.rows / std::max(inner, 1), of_block = side > 1 ? side : all / lanes;
  return simple_step<1>(device, tactic, "softmax", params, {ceil_div(groups, of_block), 1, 1, all, 0});
}

const KernelRegistrar registered({"Softmax", "LogSoftmax"}, {"", "softmax", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::softmax
