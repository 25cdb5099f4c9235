// SPDX-License-Identifier: Apache-2.0
#include "ops/sequence.h"
#include "ops/subgraph.h"

namespace tenon::ops::sequence_map {
namespace {

void infer_map(Inference& ctx) {
  const ir::Graph& body = subgraph(ctx, "body", ctx.inputs(), ctx.outputs());
  std::vector<Known> inputs;
  for (size_t at = 0; at < ctx.inputs(); ++at) {
    const bool capture = at + static_cast<size_t>(std::max<int64_t>(0, capture_count(ctx.node()))) >= ctx.inputs();
    inputs.push_back(known_input(ctx, at));
    if (!capture && inputs[at].dtype == DType::sequence) inputs[at] = {item_type(ctx, at), {}, {}, {}};
  }
  bool typed = true;
  for (const Known& input : inputs) typed = typed && input.dtype != DType::undefined;
  const std::vector<Known> outputs = typed ? infer_subgraph(ctx, body, inputs) : std::vector<Known>(ctx.outputs());
  for (size_t at = 0; at < ctx.outputs(); ++at) set_sequence(ctx, at, outputs[at].dtype);
}

/// Runs the body on item i of every sequence and the whole of every tensor; captures are passed as they are.
void evaluate_map(Evaluation& ctx) {
  const ir::Graph& body = subgraph(ctx, "body", ctx.inputs(), ctx.outputs());
  const auto captures = static_cast<size_t>(std::max<int64_t>(0, capture_count(ctx.node())));
  const std::vector<Tensor>& first = items_of(ctx, 0);
  std::vector<std::vector<Tensor>> results(ctx.outputs());
  for (size_t i = 0; i < first.size(); ++i) {
    std::vector<Tensor> inputs;
    for (size_t at = 0; at < ctx.inputs(); ++at) {
      const Tensor& input = ctx.input(at);
      if (input.dtype() != DType::sequence || at + captures >= ctx.inputs()) {
        inputs.push_back(input);
      } else {
        if (input.sequence().size() != first.size()) ctx.fail("the sequences are of different lengths");
        inputs.push_back(input.sequence()[i]);
      }
    }
    std::vector<Tensor> outputs = ctx.run(body, std::move(inputs));
    for (size_t at = 0; at < results.size(); ++at) results[at].push_back(outputs[at].copy());
  }
  for (size_t at = 0; at < results.size(); ++at) ctx.set(at, Tensor::of_sequence(std::move(results[at])));
}

TENON_OP("SequenceMap", 1, -1, 1, -1, infer_map, evaluate_map,
         AttributeDefs{attr::graph("body").required()} + captures_attribute());

}  // namespace
}  // namespace tenon::ops::sequence_map
