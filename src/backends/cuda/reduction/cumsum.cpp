// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/reduction/cumsum_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/lines.h"
#include "backends/cuda/runtime/simple_step.h"

namespace tenon::cuda::cumsum {
namespace {

using Params = CumSumParams;

Reason lines_along(const Problem& problem, Lines& lines) {
  const Tensor& axis = problem.inputs[1].constant;
  if (!axis || axis.elements() != 1) return {Reason::not_constant, "the axis"};
  return lines_of(problem, axis.dtype() == DType::i64 ? *axis.data<int64_t>() : *axis.data<int32_t>(), lines, true,
                  true);
}

Reason refuses(const Problem& problem, const Properties&) {
  Lines lines;
  return lines_along(problem, lines);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Lines lines;
  lines_along(problem, lines);
  const int lanes = lines.inner > 1 ? 1 : 32;
  const bool integers = !is_real(problem.inputs[0].dtype);
  Source source{"cumsum.cu", {}, ""};
  source.defines = {define_type("TX", problem.inputs[0].dtype),
                    std::string("SUM=") + (integers ? "i64" : "float"),
                    define("INTEGERS", integers),
                    define("EXCLUSIVE", problem.node->integer("exclusive", 0) != 0),
                    define("REVERSE", problem.node->integer("reverse", 0) != 0),
                    define("LANES", lanes)};
  return {{"lines", {source}, {lanes}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Lines lines;
  lines_along(problem, lines);
  const Params params{0, 0, lines.inner, lines.outer * lines.inner, static_cast<int>(lines.size)};
  return simple_step<1>(device, tactic, "cumsum", params, grid_for(params.lines * tactic.numbers[0]));
}

const KernelRegistrar registered({"CumSum", "cumsum", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::cumsum
