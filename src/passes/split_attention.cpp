// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Keys or values of as many heads as the queries have: [b, g, n, d] as [b, g * times, n, d].
ir::ValueId repeated(ir::Graph& graph, ir::ValueId value, const ir::Node& node, const std::string& name) {
  const ir::Shape *q = shape_of(graph, node.inputs[0]), *k = shape_of(graph, value);
  if (!q || !k || k->size() < 3) return value;
  const size_t heads = k->size() - 3;
  if (!(*q)[heads].is_constant() || !(*k)[heads].is_constant() || (*q)[heads] == (*k)[heads]) return value;
  const int64_t times = (*q)[heads].value() / (*k)[heads].value();
  const auto apply = [&](const char* op, ir::ValueId from, const std::vector<int64_t>& numbers) {
    return graph.apply(op, {from, constant(graph, name + ".repeated", numbers)}, {}, node.origins, name);
  };
  // The last axes are kept, behind what is known of those before them.
  std::vector<int64_t> apart(heads + 1, 0), shares(k->size() + 1, 1), joined(heads, 0);
  for (const int64_t one : {int64_t{1}, int64_t{-1}, k->back().value()}) apart.push_back(one);
  shares[heads + 1] = times;
  for (const int64_t one : {(*q)[heads].value(), int64_t{-1}, k->back().value()}) joined.push_back(one);
  return apply("Reshape", apply("Expand", apply("Reshape", value, apart), shares), joined);
}

/// Scores plus a mask; one that repeats along their first axis is added to these in parts of its size.
ir::ValueId masked(ir::Graph& graph, ir::ValueId scores, const ir::Node& node, const std::string& name) {
  const ir::ValueId mask = node.inputs[3];
  const ir::Shape *q = shape_of(graph, node.inputs[0]), *k = shape_of(graph, node.inputs[1]),
                  *m = shape_of(graph, mask);
  const auto apply = [&](const char* op, ir::ValueId from, ir::ValueId with) {
    return graph.apply(op, {from, with}, {}, node.origins, name);
  };
  if (!q || !k || !m || m->size() != 4 || (*m)[0] == ir::Dim(1) || (*m)[0] == (*q)[0] || !(*m)[0].is_constant())
    return apply("Add", scores, mask);
  std::vector<int64_t> sizes{-1};
  for (const ir::Dim& size : {(*q)[1], (*q)[2], (*k)[2]}) sizes.push_back(size.value());
  std::vector<int64_t> parts = sizes;
  parts.insert(parts.begin() + 1, (*m)[0].value());
  const ir::ValueId apart = apply("Reshape", scores, constant(graph, name + ".parts", parts));
  return apply("Reshape", apply("Add", apart, mask), constant(graph, name + ".whole", sizes));
}

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
  const ir::ValueId keys = apply("Transpose", {repeated(graph, node.inputs[1], node, name)}, {{"perm", perm}});
  ir::ValueId scores = apply("MatMul", {node.inputs[0], keys});
  scores = apply("Mul", {scores, constant(graph, name + ".scale", {}, {node.real("scale", 1)})});
  if (node.inputs.size() > 3 && node.inputs[3] != ir::no_value) scores = masked(graph, scores, node, name);
  ir::ValueId weights = apply("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (node.integer("nan_to_zero", 0)) {
    const ir::ValueId test = apply("IsNaN", {weights});
    weights = apply("Where", {test, constant(graph, name + ".zero", {}, {0.f}), weights});
  }
  ir::Attributes attributes;
  for (const char* word : {"activation", "alpha", "beta"})
    if (node.has(word)) attributes[word] = node.attributes.at(word);
  replace(graph, id, apply("MatMul", {weights, repeated(graph, node.inputs[2], node, name)}, attributes));
  return true;
}

}  // namespace

bool split_attention(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return split_attention_at(graph, id); });
}

}  // namespace tenon::passes
