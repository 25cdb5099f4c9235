// SPDX-License-Identifier: Apache-2.0
#include "backends/backend.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

backends::Problem bare_problem(const ir::Graph& graph, ir::NodeId id, const Layout& layout, int threads) {
  const ir::Node& node = graph.node(id);
  backends::Problem problem;
  problem.node = &node;
  problem.threads = threads;
  const auto fill = [&](std::vector<backends::Operand>& operands, const std::vector<ir::ValueId>& values) {
    operands.resize(values.size());
    for (size_t at = 0; at < values.size(); ++at) {
      if (values[at] == ir::no_value) continue;
      const ir::Value& of = graph.value(values[at]);
      const backends::Place& place = layout.places[values[at]];
      backends::Operand& operand = operands[at];
      operand.dtype = of.dtype, operand.dims = place.dims, operand.strides = place.strides;
      if (of.is_constant()) operand.constant = of.constant;
      operand.aligned = place.offset * static_cast<int64_t>(size_of(of.dtype)) % 16 == 0;
    }
  };
  fill(problem.inputs, node.inputs), fill(problem.outputs, node.outputs);
  return problem;
}

}  // namespace

backends::Problem problem_of(const ir::Graph& graph, ir::NodeId id, const Layout& layout, int threads,
                             const Plan& plan) {
  backends::Problem problem = bare_problem(graph, id, layout, threads);
  backends::backend(plan.device).constrain(problem, plan.goal);
  return problem;
}

backends::Problem host_problem_of(const ir::Graph& graph, ir::NodeId id, const Layout& layout, int threads,
                                  const Plan& plan) {
  backends::Problem problem = bare_problem(graph, id, layout, threads);
  backends::host().constrain(problem, host_goal(plan));
  return problem;
}

backends::Goal host_goal(const Plan& plan) { return backends::backend(plan.device).host_goal(plan.goal); }

}  // namespace tenon::plan
