// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool split_attention_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const auto rank = node.op == "tenon:DotAttention" ? rank_of(graph, node.inputs[1]) : std::nullopt;
  if (!rank || *rank < 2) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto apply = [&](const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return graph.apply(op, std::move(inputs), std::move(attributes), node.origins, name);
  };
  Perm perm(*rank);
  for (size_t axis = 0; axis < *rank; ++axis) perm[axis] = static_cast<int64_t>(axis);
  std::swap(perm[*rank - 1], perm[*rank - 2]);
  const ir::ValueId keys = apply("Transpose", {node.inputs[1]}, {{"perm", perm}});
  ir::ValueId scores = apply("MatMul", {node.inputs[0], keys});
  scores = apply("Mul", {scores, constant(graph, name + ".scale", {}, {node.real("scale", 1)})});
  if (node.inputs.size() > 3 && node.inputs[3] != ir::no_value) scores = apply("Add", {scores, node.inputs[3]});
  ir::ValueId weights = apply("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (node.integer("nan_to_zero", 0)) {
    const ir::ValueId test = apply("IsNaN", {weights});
    weights = apply("Where", {test, constant(graph, name + ".zero", {}, {0.f}), weights});
  }
  replace(graph, id, apply("MatMul", {weights, node.inputs[2]}));
  return true;
}

}  // namespace

bool split_attention(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return split_attention_at(graph, id); });
}

}  // namespace tenon::passes
