// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

/// A Reshape behind a Transpose that splits axes goes before it, where it may meet another Reshape.
bool split_axes_first_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Node* turn = node.op == "Reshape" ? sole(graph, node.inputs[0], "Transpose") : nullptr;
  if (!turn || !turn->has("perm")) return false;
  const ir::Node* before = made_by(graph, turn->inputs[0], "Reshape");
  const ir::Shape *from = before ? shape_of(graph, before->inputs[0]) : nullptr,
                  *middle = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !middle || !to) return false;
  const std::vector<size_t> counts = split_counts(*middle, *to);
  const std::vector<int64_t> perm = turn->integers("perm");
  if (counts.size() != perm.size()) return false;
  // The axes of the result in the order that they have before the transpose.
  std::vector<std::vector<int64_t>> groups(perm.size());
  int64_t axis = 0;
  for (size_t at = 0; at < perm.size(); ++at)
    for (size_t part = 0; part < counts[at]; ++part) groups[static_cast<size_t>(perm[at])].push_back(axis++);
  Perm order;
  for (const auto& group : groups) order.insert(order.end(), group.begin(), group.end());
  ir::Shape shape;
  for (int64_t place : order) shape.push_back((*to)[static_cast<size_t>(place)]);
  const std::string name = graph.value(node.outputs[0]).name;
  const auto origins = joined(joined(before->origins, turn->origins), node.origins);
  const ir::ValueId source = before->inputs[0];
  const auto list = reshape_list(graph, name + ".parts.shape", *from, shape);
  if (!list) return false;
  const ir::ValueId parts = graph.apply("Reshape", {source, *list}, {}, origins, name + ".parts");
  graph.value(parts).dtype = graph.value(source).dtype, graph.value(parts).shape = shape;
  replace(graph, id, graph.apply("Transpose", {parts}, {{"perm", inverse(order)}}, origins, name));
  return true;
}

}  // namespace

bool split_axes_first(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return split_axes_first_at(graph, id); });
}

}  // namespace tenon::passes
