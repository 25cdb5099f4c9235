// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

Perm perm_of(const ir::Graph& graph, const ir::Node& node) {
  Perm perm = node.integers("perm");
  const auto rank = rank_of(graph, node.inputs[0]);
  if (perm.empty() && rank)
    for (size_t at = *rank; at-- > 0;) perm.push_back(static_cast<int64_t>(at));
  return perm;
}

bool transpose(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const Perm perm = perm_of(graph, node);
  if (perm.empty()) return false;
  if (is_identity(perm)) return replace(graph, id, node.inputs[0]), true;
  const std::string name = graph.value(node.outputs[0]).name;
  if (const ir::Node* before = made_by(graph, node.inputs[0], "Transpose")) {
    const Perm first = perm_of(graph, *before);
    if (first.size() == perm.size()) {
      const Perm both = compose(first, perm);
      const ir::ValueId from = before->inputs[0];
      const auto origins = joined(before->origins, node.origins);
      const ir::ValueId result =
          is_identity(both) ? from : graph.apply("Transpose", {from}, {{"perm", both}}, origins, name);
      return replace(graph, id, result), true;
    }
  }
  // Where only axes of one element move, the elements stay in order.
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to || from->size() != perm.size() || !moves_only_ones(*from, perm) ||
      graph.value(node.inputs[0]).dtype == DType::string)
    return false;
  const auto list = reshape_list(graph, name + ".shape", *from, *to);
  if (!list) return false;
  const ir::ValueId result = graph.apply("Reshape", {node.inputs[0], *list}, {}, node.origins, name);
  return replace(graph, id, result), true;
}

/// Axes of one element that a Reshape drops need not be transposed.
bool drop_ones(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Node* turn = sole(graph, node.inputs[0], "Transpose");
  const ir::Shape *from = turn ? shape_of(graph, turn->inputs[0]) : nullptr, *wide = shape_of(graph, node.inputs[0]),
                  *to = shape_of(graph, node.outputs[0]);
  if (!from || !wide || !to || to->size() >= wide->size()) return false;
  const Perm perm = perm_of(graph, *turn);
  Perm kept;  // axes of what is transposed, in the order of the result
  for (size_t axis = 0; axis < wide->size(); ++axis) {
    if (kept.size() < to->size() && (*wide)[axis] == (*to)[kept.size()]) kept.push_back(perm[axis]);
    else if (!((*wide)[axis] == ir::Dim(1))) return false;
  }
  if (kept.size() != to->size()) return false;
  Perm sorted = kept, narrow;
  std::sort(sorted.begin(), sorted.end());
  ir::Shape shape;
  for (const int64_t axis : sorted) shape.push_back((*from)[static_cast<size_t>(axis)]);
  for (const int64_t axis : kept)
    narrow.push_back(std::lower_bound(sorted.begin(), sorted.end(), axis) - sorted.begin());
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::ValueId source = turn->inputs[0];
  const auto origins = joined(turn->origins, node.origins);
  const auto list = reshape_list(graph, name + ".less.shape", *from, shape);
  if (!list) return false;
  const ir::ValueId less = graph.apply("Reshape", {source, *list}, {}, origins, name + ".less");
  graph.value(less).dtype = graph.value(source).dtype, graph.value(less).shape = shape;
  return replace(graph, id, graph.apply("Transpose", {less}, {{"perm", narrow}}, origins, name)), true;
}

bool reshape(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (same_shape(graph, node.inputs[0], node.outputs[0])) return replace(graph, id, node.inputs[0]), true;
  if (drop_ones(graph, id)) return true;
  const ir::Node* before = made_by(graph, node.inputs[0], "Reshape");
  if (!before) return false;
  const ir::ValueId origin = before->inputs[0];
  const ir::Shape *from = shape_of(graph, origin), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to) return false;
  const auto origins = joined(before->origins, node.origins);
  const auto list = reshape_list(graph, graph.value(node.outputs[0]).name + ".shape", *from, *to);
  if (!list) return false;
  graph.set_inputs(id, {origin, *list});
  ir::Node& changed = graph.node(id);
  changed.attributes.erase("allowzero");
  changed.origins = origins;
  return true;
}

}  // namespace

bool cancel_transpose_reshape(ir::Graph& graph) {
  bool changed = false;
  // Two rounds: a transpose that turned into a reshape may meet another.
  for (int round = 0; round < 2; ++round)
    changed |= each_node(graph, [&](ir::NodeId id) {
      const std::string op = graph.node(id).op;
      return op == "Transpose" ? transpose(graph, id) : op == "Reshape" && reshape(graph, id);
    });
  return changed;
}

}  // namespace tenon::passes
