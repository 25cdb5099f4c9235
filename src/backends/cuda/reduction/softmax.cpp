// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/reduction/softmax_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/strided_rows.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::softmax {
namespace {

using Params = SoftmaxParams;

/// Whether neighbours of a row lie side by side.
bool is_inner(const Params& params) { return params.x_step == 1 && params.y_step == 1; }

/// Lanes that share a row.
int lanes_of(const Params& params) {
  int lanes = is_inner(params) ? 4 : 1;
  while (is_inner(params) && lanes < params.length && lanes < 32) lanes *= 2;
  return lanes;
}

/// The length where a thread holds a whole row; else 0.
int64_t short_of(const Problem& problem) {
  Params params;
  set_strided_rows(problem, params);
  const auto chunk = static_cast<int64_t>(16 / size_of(problem.inputs[0].dtype));
  bool fits = is_inner(params) && params.length <= 32 && params.length % chunk == 0 && problem.inputs[0].aligned &&
              problem.outputs[0].aligned;
  for (size_t at = 0; at < most_row_axes; ++at) fits = fits && params.xs[at] % chunk == 0 && params.ys[at] % chunk == 0;
  return fits ? params.length : 0;
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
  Source source{"softmax.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define("LANES", lanes_of(params)),
                    define("LOG", ops::has_trait(problem.node->op, ops::Trait::logarithm)),
                    define("SHORT", short_of(problem))};
  return {{"softmax", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params{};
  set_strided_rows(problem, params);
  const int lanes = short_of(problem) ? 1 : lanes_of(params);
  return simple_step<1>(device, tactic, "softmax", params, {ceil_div(params.rows, 256 / lanes), 1, 1, 256, 0});
}

const KernelRegistrar registered({"Softmax", "LogSoftmax"}, {"", "softmax", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::softmax
