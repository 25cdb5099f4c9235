// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/reduction/softmax_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::softmax {
namespace {

constexpr size_t most_axes = 4;  // of rows

using Params = SoftmaxParams;

/// False where rows lie on too many axes.
bool shape_of(const Problem& problem, Params& params) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  int64_t axis = problem.node->integer("axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(x.dims.rank());
  const auto own = static_cast<size_t>(axis);
  params = {0, 0, 1, x.dims[own], x.strides[own], y.strides[own], {}, {}, {1, 1, 1, 1}};
  // From the innermost axis on, joined with the one before where both tensors run on.
  size_t at = most_axes;
  for (size_t k = x.dims.rank(); k-- > 0;) {
    if (k == own || x.dims[k] == 1) continue;
    params.rows *= x.dims[k];
    const bool joins = at < most_axes && x.strides[k] == params.xs[at] * params.dims[at] &&
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
  shape_of(problem, params);
  const auto chunk = static_cast<int64_t>(16 / size_of(problem.inputs[0].dtype));
  bool fits = is_inner(params) && params.length <= 32 && params.length % chunk == 0 && problem.inputs[0].aligned &&
              problem.outputs[0].aligned;
  for (size_t at = 0; at < most_axes; ++at) fits = fits && params.xs[at] % chunk == 0 && params.ys[at] % chunk == 0;
  return fits ? params.length : 0;
}

Reason refuses(const Problem& problem, const Properties&) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (!is_real(x.dtype) || x.dtype != y.dtype) return {Reason::element_type, "elements", "f32, f16 or bf16"};
  if (x.dims.rank() == 0) return {Reason::shape, "the input", "an axis"};
  Params params;
  return shape_of(problem, params) && params.rows < int64_t{1} << 31
             ? Reason()
             : Reason(Reason::too_many, most_axes, "axes of rows");
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Params params;
  shape_of(problem, params);
  Source source{"softmax.cu", {}, ""};
  source.defines = {define_type("ELEMENT", problem.inputs[0].dtype), define("LANES", lanes_of(params)),
                    define("LOG", ops::has_trait(problem.node->op, ops::Trait::logarithm)),
                    define("SHORT", short_of(problem))};
  return {{"softmax", {source}, {}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Params params{};
  shape_of(problem, params);
  const int lanes = short_of(problem) ? 1 : lanes_of(params);
  return simple_step<1>(device, tactic, "softmax", params, {ceil_div(params.rows, 256 / lanes), 1, 1, 256, 0});
}

const KernelRegistrar registered({"Softmax", "LogSoftmax"}, {"", "softmax", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::softmax
