// SPDX-License-Identifier: Apache-2.0
#include "ops/inverted_bottleneck.h"

#include "ops/parts.h"

namespace tenon::ops {

Bottleneck bottleneck_of(const ir::Node& node) {
  const auto has = [&](size_t input) { return node.inputs.size() > input && node.inputs[input] != ir::no_value; };
  Bottleneck bottleneck{has(bottleneck_parts[0].weights), has(bottleneck_parts[2].weights), {}};
  for (size_t at = 0; at < 3; ++at) bottleneck.parts[at] = part_of(node, "Conv", bottleneck_parts[at].prefix);
  return bottleneck;
}

ir::Attributes bottleneck_attributes(const ir::Node* expand, const ir::Node* depthwise, const ir::Node* project) {
  ir::Attributes attributes;
  const ir::Node* nodes[] = {expand, depthwise, project};
  for (size_t at = 0; at < 3; ++at)
    if (nodes[at]) add_part(attributes, *nodes[at], bottleneck_parts[at].prefix);
  return attributes;
}

std::vector<Convolution> convolutions_of(const ir::Node& node) {
  if (!has_trait(node.op, Trait::convolution)) return {};
  if (!has_trait(node.op, Trait::group)) return {{node, 1, 3}};
  if (node.op != "tenon:InvertedBottleneck" && node.op != "tenon:ConvPair") return {};
  Bottleneck bottleneck = bottleneck_of(node);
  std::vector<Convolution> list;
  for (size_t part = bottleneck.first(); part <= bottleneck.last(); ++part)
    list.push_back({std::move(bottleneck.parts[part]), bottleneck_parts[part].weights,
                    part == bottleneck.last() ? bottleneck_residual : node.inputs.size()});
  return list;
}

namespace {

/// The operands of a part, the result of the one before in front: what `get` gives for inputs of the whole.
template <class T, class Get>
std::vector<T> operands_of(size_t part, T x, bool adds, const Get& get) {
  std::vector<T> operands{x, get(bottleneck_parts[part].weights), get(bottleneck_parts[part].weights + 1)};
  if (adds) operands.push_back(get(bottleneck_residual));
  return operands;
}

/// A graph of the three, of which type and sizes of the result are known.
void infer(Inference& ctx) {
  const Bottleneck bottleneck = bottleneck_of(ctx.node());
  if (!ctx.has(bottleneck_parts[1].weights) || (ctx.node().op == "tenon:ConvPair" && !bottleneck.has_expansion))
    ctx.fail("weights are missing");
  ir::Graph graph;
  const auto value = [&](size_t input) { return add_value(graph, ctx, input); };
  ir::ValueId x = value(0);
  graph.inputs.push_back(x);
  for (size_t part = bottleneck.first(); part <= bottleneck.last(); ++part) {
    const std::vector<ir::ValueId> inputs =
        operands_of(part, x, part == bottleneck.last() && ctx.has(bottleneck_residual), value);
    x = graph.apply("Conv", inputs, bottleneck.parts[part].attributes, ctx.node().origins);
  }
  ops::infer(graph);
  ctx.set(0, graph.value(x).dtype, graph.value(x).shape);
}

void evaluate(Evaluation& ctx) {
  const Bottleneck bottleneck = bottleneck_of(ctx.node());
  const auto input = [&](size_t at) { return ctx.has(at) ? ctx.input(at) : Tensor(); };
  Tensor x = ctx.input(0);
  for (size_t part = bottleneck.first(); part <= bottleneck.last(); ++part) {
    ir::Node node = bottleneck.parts[part];
    node.outputs = {0};
    x = ops::evaluate(node, operands_of(part, x, part == bottleneck.last() && ctx.has(bottleneck_residual), input))[0];
  }
  ctx.set(0, x);
}

TENON_OP("tenon:InvertedBottleneck", 1, 8, 1, 1, infer, evaluate,
         {attr::part("expand.", "Conv"), attr::part("depthwise.", "Conv"), attr::part("project.", "Conv")},
         Trait::product | Trait::convolution | Trait::group | Traits::weights_at({1, 3, 5}));
TENON_OP("tenon:ConvPair", 1, 8, 1, 1, infer, evaluate,
         {attr::part("expand.", "Conv"), attr::part("depthwise.", "Conv")},
         Trait::product | Trait::convolution | Trait::group | Traits::weights_at({1, 3}));

}  // namespace
}  // namespace tenon::ops
