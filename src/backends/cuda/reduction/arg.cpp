// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/reduction/arg_params.h"
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/reduction/lines.h"
#include "backends/cuda/runtime/simple_step.h"
#include "ops/op.h"

namespace tenon::cuda::arg {
namespace {

using Params = ArgParams;

constexpr int64_t long_line = 4096;

Reason refuses(const Problem& problem, const Properties&) {
  Lines lines;
  return lines_of(problem, 0, lines, true, true);
}

std::vector<Tactic> tactics(const Problem& problem, const Properties&) {
  Lines lines;
  lines_of(problem, 0, lines, true, true);
  const int lanes = lines.inner > 1 ? 1 : lines.size < long_line ? 32 : 256;
  Source source = source_from({"rank.cuh", "arg.cu"});
  source.defines = {define_type("TX", problem.inputs[0].dtype),
                    define("LARGEST", ops::traits_of(problem.node->op).reduction() == ops::Reduction::largest),
                    define("LAST", problem.node->integer("select_last_index", 0)),
                    define("LANES", lanes),
                    define("THREADS", 256),
                    define("RANKED", 1)};
  return {{"arg", {source}, {lanes}}};
}

std::unique_ptr<Step> make(const Problem& problem, Device& device, const Tactic& tactic) {
  Lines lines;
  lines_of(problem, 0, lines, true, true);
  const Params params{0, 0, lines.inner, lines.outer * lines.inner, static_cast<int>(lines.size)};
  return simple_step<1>(device, tactic, "arg", params, grid_for(params.lines * tactic.numbers[0]));
}

const KernelRegistrar registered({"ArgMax", "ArgMin"}, {"", "arg", 1, refuses, tactics, make});

}  // namespace
}  // namespace tenon::cuda::arg
