// SPDX-License-Identifier: Apache-2.0
#include "ops/subgraph.h"

namespace tenon::ops::if_op {
namespace {

/// Inputs: the condition, then the values both branches take.
void infer_if(Inference& ctx) {
  const auto branch = [&](const char* name) -> const ir::Graph& {
    return subgraph(ctx, name, ctx.inputs() - 1, ctx.outputs());
  };
  want_condition(ctx, ctx.dtype(0), ctx.shape(0), "the condition");
  const ir::Graph &yes = branch("then_branch"), &no = branch("else_branch");
  std::vector<Known> inputs;
  for (size_t at = 1; at < ctx.inputs(); ++at) inputs.push_back(known_input(ctx, at));
  std::vector<Known> outputs;
  if (const Tensor* condition = ctx.constant(0)) {
    outputs = infer_subgraph(ctx, truth(ctx, *condition) ? yes : no, inputs);
  } else {
    std::vector<Known> others;
    try {
      outputs = infer_subgraph(ctx, yes, inputs);
    } catch (const Error&) {
      // A branch that cannot be right for these sizes is one that the condition does not take, if the model is right.
    }
    try {
      others = infer_subgraph(ctx, no, inputs);
    } catch (const Error&) {
      if (outputs.empty()) throw;
    }
    if (outputs.empty()) outputs = std::move(others);
    for (size_t at = 0; at < ctx.outputs() && !others.empty(); ++at)
      outputs[at] = merge(ctx, outputs[at], others[at], "m" + std::to_string(at));
  }
  for (size_t at = 0; at < ctx.outputs(); ++at) set_known(ctx, at, outputs[at]);
}

void evaluate_if(Evaluation& ctx) {
  const ir::Graph& graph =
      subgraph(ctx, truth(ctx, ctx.input(0)) ? "then_branch" : "else_branch", ctx.inputs() - 1, ctx.outputs());
  std::vector<Tensor> inputs;
  for (size_t at = 1; at < ctx.inputs(); ++at) inputs.push_back(ctx.input(at));
  std::vector<Tensor> results = ctx.run(graph, std::move(inputs));
  for (size_t at = 0; at < ctx.outputs(); ++at) ctx.set(at, std::move(results[at]));
}

TENON_OP("If", 1, -1, 1, -1, infer_if, evaluate_if,
         AttributeDefs{attr::graph("else_branch").required(), attr::graph("then_branch").required()} +
             captures_attribute(),
         Traits::standard_inputs(1));
const FlowRegistrar flow("If", Flow::branch);

}  // namespace
}  // namespace tenon::ops::if_op
