// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

/// A Transpose of axes that a Reshape joined behind another Transpose: one Transpose of the axes apart, joined behind
/// it.
bool join_axes_last_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Node* joins = node.op == "Transpose" ? sole(graph, node.inputs[0], "Reshape") : nullptr;
  const ir::Node* turn = joins ? sole(graph, joins->inputs[0], "Transpose") : nullptr;
  if (!turn || !turn->has("perm") || !node.has("perm")) return false;
  const ir::Shape *from = shape_of(graph, turn->inputs[0]), *apart = shape_of(graph, joins->inputs[0]),
                  *joined_shape = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !apart || !joined_shape || !to) return false;
  const std::vector<size_t> counts = split_counts(*joined_shape, *apart);
  const Perm perm = node.integers("perm");
  if (counts.size() != perm.size()) return false;
  std::vector<Perm> parts;  // of each joined axis
  int64_t axis = 0;
  for (const size_t count : counts) {
    parts.emplace_back();
    for (size_t part = 0; part < count; ++part) parts.back().push_back(axis++);
  }
  Perm order;
  for (const int64_t at : perm) order.insert(order.end(), parts[at].begin(), parts[at].end());
  const Perm both = compose(turn->integers("perm"), order);
  const ir::Shape shape = permuted(*from, both);
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::ValueId source = turn->inputs[0];
  const auto origins = joined(joined(turn->origins, joins->origins), node.origins);
  const auto list = reshape_list(graph, name + ".shape", shape, *to);
  if (!list) return false;
  ir::ValueId turned = source;
  if (!is_identity(both)) {
    turned = graph.apply("Transpose", {source}, {{"perm", both}}, origins, name + ".apart");
    graph.value(turned).dtype = graph.value(source).dtype, graph.value(turned).shape = shape;
  }
  replace(graph, id, graph.apply("Reshape", {turned, *list}, {}, origins, name));
  return true;
}

}  // namespace

bool join_axes_last(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return join_axes_last_at(graph, id); });
}

}  // namespace tenon::passes
