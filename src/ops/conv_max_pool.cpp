// SPDX-License-Identifier: Apache-2.0
#include "ops/conv_max_pool.h"

#include "ops/parts.h"

namespace tenon::ops {

ConvMaxPool conv_max_pool_of(const ir::Node& node) {
  const ir::OpId conv = node.op == "tenon:Int8ConvMaxPool" ? "tenon:Int8Conv" : "Conv";
  return {part_of(node, conv, "conv."), part_of(node, "MaxPool", "pool.")};
}

ir::Attributes conv_max_pool_attributes(const ir::Node& conv, const ir::Node& pool) {
  ir::Attributes attributes;
  add_part(attributes, conv, "conv.");
  add_part(attributes, pool, "pool.");
  return attributes;
}

namespace {

/// A graph of the two, of which type and sizes of the result are known.
void infer(Inference& ctx) {
  const auto [conv, pool] = conv_max_pool_of(ctx.node());
  ir::Graph graph;
  std::vector<ir::ValueId> inputs;
  for (size_t input = 0; input < ctx.inputs(); ++input) inputs.push_back(add_value(graph, ctx, input));
  const ir::ValueId x = graph.apply(conv.op, inputs, conv.attributes, conv.origins);
  const ir::ValueId y = graph.apply(pool.op, {x}, pool.attributes, pool.origins);
  ops::infer(graph);
  ctx.set(0, graph.value(y).dtype, graph.value(y).shape);
}

void evaluate(Evaluation& ctx) {
  auto [conv, pool] = conv_max_pool_of(ctx.node());
  conv.outputs = pool.outputs = {0};
  std::vector<Tensor> inputs;
  for (size_t input = 0; input < ctx.inputs(); ++input) inputs.push_back(ctx.input(input));
  ctx.set(0, ops::evaluate(pool, ops::evaluate(conv, inputs))[0]);
}

TENON_OP("tenon:ConvMaxPool", 2, 4, 1, 1, infer, evaluate,
         {attr::part("conv.", "Conv"), attr::part("pool.", "MaxPool")},
         Trait::product | Trait::convolution | Trait::group | Traits::weights_at({1}));
TENON_OP("tenon:Int8ConvMaxPool", 2, 11, 1, 1, infer, evaluate,
         {attr::part("conv.", "tenon:Int8Conv"), attr::part("pool.", "MaxPool")},
         Trait::product | Trait::convolution | Trait::group | Trait::quantised);

}  // namespace
}  // namespace tenon::ops
