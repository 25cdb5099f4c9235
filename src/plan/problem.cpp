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
  const auto operand = [&](ir::ValueId value) {
    backends::Operand result;
    if (value == ir::no_value) return result;
    result.dtype = graph.value(value).dtype;
    result.dims = layout.places[value].dims;
    result.strides = layout.places[value].strides;
    result.constant = graph.value(value).constant;
    result.aligned = layout.places[value].offset * static_cast<int64_t>(size_of(result.dtype)) % 16 == 0;
    return result;
  };
  for (ir::ValueId input : node.inputs) problem.inputs.push_back(operand(input));
  for (ir::ValueId output : node.outputs) problem.outputs.push_back(operand(output));
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
