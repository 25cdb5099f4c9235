// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool is_f32(const ir::Graph& graph, ir::ValueId id) { return graph.value(id).dtype == DType::f32; }

/// Adds a node whose result has this type and the sizes of `like`.
ir::ValueId typed(ir::Graph& graph, const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes,
                  const ir::Node& node, ir::ValueId like, DType dtype) {
  const std::optional<ir::Shape> shape = graph.value(like).shape;
  const ir::ValueId made =
      graph.apply(op, std::move(inputs), std::move(attributes), node.origins, graph.value(node.outputs[0]).name);
  graph.value(made).dtype = dtype;
  graph.value(made).shape = shape;
  return made;
}

/// The smallest f32 that is infinite once it is cast to this type, half a step beyond its largest number.
float infinite_as(DType type) {
  return type == DType::f16 ? 65520.f : type == DType::bf16 ? 0x1.ffp127f : std::numeric_limits<float>::infinity();
}

/// A number is infinite where its size is; one that would be cast for it need not be.
bool lower_infinite(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "IsInf") return false;
  const bool above = node.integer("detect_positive", 1) != 0, below = node.integer("detect_negative", 1) != 0;
  const ir::Node* cast = made_by(graph, node.inputs[0], "Cast");
  const bool through = cast && is_float(graph.value(node.inputs[0]).dtype) && is_f32(graph, cast->inputs[0]);
  const ir::ValueId x = through ? cast->inputs[0] : node.inputs[0];
  if (!is_f32(graph, x) || (!above && !below)) return false;
  const float least = infinite_as(graph.value(node.inputs[0]).dtype);
  const ir::ValueId tested = above && below ? typed(graph, "Abs", {x}, {}, node, x, DType::f32) : x;
  const ir::ValueId bound = constant(graph, "", Dims{}, {above ? least : -least});
  const char* const op = above ? "GreaterOrEqual" : "LessOrEqual";
  replace(graph, id, typed(graph, op, {tested, bound}, {}, node, x, DType::boolean));
  return true;
}

/// Whether any of some truth values holds, which are counted for it: the largest of them tells.
bool lower_any(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Greater" || scalar(graph, node.inputs[1]) != 0.0) return false;
  const ir::Node* sum = sole(graph, node.inputs[0], "ReduceSum");
  const ir::Node* cast = sum ? sole(graph, sum->inputs[0], "Cast") : nullptr;
  if (!cast || graph.value(cast->inputs[0]).dtype != DType::boolean) return false;
  const ir::Node counted = *sum, numbers = *cast;
  if (is_float(graph.value(counted.outputs[0]).dtype)) return false;
  const ir::ValueId real = typed(graph, "Cast", {numbers.inputs[0]}, {{"to", static_cast<int64_t>(DType::f32)}},
                                 numbers, numbers.inputs[0], DType::f32);
  std::vector<ir::ValueId> inputs = counted.inputs;
  inputs[0] = real;
  const ir::ValueId most =
      typed(graph, "ReduceMax", inputs, counted.attributes, counted, counted.outputs[0], DType::f32);
  const ir::ValueId zero = constant(graph, "", Dims{}, {0.f});
  ir::Node last = node;
  last.origins = joined(joined(numbers.origins, counted.origins), node.origins);
  replace(graph, id, typed(graph, "Greater", {most, zero}, {}, last, node.outputs[0], DType::boolean));
  return true;
}

/// Bounds that only a run knows.
bool lower_clip(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Clip" || !is_f32(graph, node.inputs[0])) return false;
  bool is_known = true;
  for (size_t at = 1; at < node.inputs.size(); ++at)
    is_known &= node.inputs[at] == ir::no_value || graph.constant(node.inputs[at]) != nullptr;
  if (is_known) return false;
  ir::ValueId result = node.inputs[0];
  const char* const ops[] = {"", "Max", "Min"};
  for (size_t at = 1; at < node.inputs.size(); ++at)
    if (node.inputs[at] != ir::no_value)
      result = typed(graph, ops[at], {result, node.inputs[at]}, {}, node, node.inputs[0], DType::f32);
  replace(graph, id, result);
  return true;
}

}  // namespace

bool lower_tests(ir::Graph& graph) {
  return each_node(
      graph, [&](ir::NodeId id) { return lower_infinite(graph, id) || lower_any(graph, id) || lower_clip(graph, id); });
}

}  // namespace tenon::passes
