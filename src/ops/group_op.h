// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>

#include "ops/inference.h"

/// The op of a fusion group from the nodes it stands for, which give its types and its plain result.
namespace tenon::ops {

/// Adds the members of a group to a graph that has its inputs; returns its outputs there.
using Members = std::vector<ir::ValueId> (*)(ir::Graph& graph, const ir::Node& group,
                                             const std::vector<ir::ValueId>& inputs);

template <Members members>
void infer_group(Inference& ctx) {
  ir::Graph graph;
  std::vector<ir::ValueId> inputs;
  for (size_t at = 0; at < ctx.inputs(); ++at)
    inputs.push_back(ctx.has(at) ? graph.add_value("", ctx.dtype(at), known_shape(ctx, at)) : ir::no_value);
  const std::vector<ir::ValueId> outputs = members(graph, ctx.node(), inputs);
  ops::infer(graph);
  for (size_t at = 0; at < outputs.size(); ++at)
    ctx.set(at, graph.value(outputs[at]).dtype, graph.value(outputs[at]).shape);
}

template <Members members>
void evaluate_group(Evaluation& ctx) {
  ir::Graph graph;
  std::vector<ir::ValueId> inputs;
  std::vector<Tensor> operands;
  for (size_t at = 0; at < ctx.inputs(); ++at) {
    inputs.push_back(ctx.has(at) ? graph.add_value("", ctx.input(at).dtype()) : ir::no_value);
    if (!ctx.has(at)) continue;
    graph.inputs.push_back(inputs.back());
    operands.push_back(ctx.input(at));
  }
  graph.outputs = members(graph, ctx.node(), inputs);
  std::vector<Tensor> results = interpret(graph, std::move(operands));
  for (size_t at = 0; at < results.size(); ++at) ctx.set(at, std::move(results[at]));
}

/// const Registrar registered(group_op<members>("tenon:AddNorm", 3, 4, 2, {attr::real("epsilon").internal()}));
template <Members members>
OpDef group_op(const char* name, int least_inputs, int most_inputs, int outputs, AttributeDefs attributes,
               Traits traits = {}) {
  return {name,
          least_inputs,
          most_inputs,
          outputs,
          outputs,
          infer_group<members>,
          evaluate_group<members>,
          std::move(attributes),
          traits | Trait::group};
}

}  // namespace tenon::ops
