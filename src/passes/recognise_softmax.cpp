// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The axis that a node reduces alone; nullopt: others.
std::optional<size_t> axis_reduced(const ir::Graph& graph, const ir::Node& node) {
  const auto rank = rank_of(graph, node.inputs[0]);
  const auto axes = node.inputs.size() > 1 ? integers(graph, node.inputs[1]) : std::nullopt;
  return rank && axes && axes->size() == 1 ? axis_of((*axes)[0], *rank) : std::nullopt;
}

/// Whether a value has one number for each line of x along an axis.
bool is_of_lines(const ir::Graph& graph, ir::ValueId id, ir::ValueId x, size_t axis) {
  const ir::Shape *shape = shape_of(graph, id), *whole = shape_of(graph, x);
  if (!shape || !whole || shape->size() != whole->size()) return false;
  for (size_t at = 0; at < whole->size(); ++at)
    if (!((*shape)[at] == (at == axis ? ir::Dim(1) : (*whole)[at]))) return false;
  return true;
}

/// e / sum(e) of e = exp(x - max(x)), which JAX puts a floor of -inf under.
bool to_softmax(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Div") return false;
  const ir::Node* exp = made_by(graph, node.inputs[0], "Exp");
  const ir::Node* sub = exp ? sole(graph, exp->inputs[0], "Sub") : nullptr;
  const ir::Node* sum = sub ? made_by(graph, behind_ones(graph, node.inputs[1]), "ReduceSum") : nullptr;
  if (!sum || sum->inputs[0] != node.inputs[0]) return false;
  ir::ValueId most = behind_ones(graph, sub->inputs[1]);
  if (const ir::Node* clip = made_by(graph, most, "Clip"); clip && clip->inputs.size() == 2) {
    const auto least = scalar(graph, clip->inputs[1]);
    if (!least || *least > -3e38) return false;
    most = behind_ones(graph, clip->inputs[0]);
  }
  const ir::Node* max = made_by(graph, most, "ReduceMax");
  const ir::ValueId x = sub->inputs[0];
  if (!max || max->inputs[0] != x || !same_shape(graph, x, node.outputs[0])) return false;
  const auto axis = axis_reduced(graph, *max);
  if (!axis || axis_reduced(graph, *sum) != axis) return false;
  if (!is_of_lines(graph, sub->inputs[1], x, *axis) || !is_of_lines(graph, node.inputs[1], x, *axis)) return false;
  std::vector<std::string> origins = joined(max->origins, sub->origins);
  for (const ir::Node* part : {exp, sum, &node}) origins = joined(origins, part->origins);
  replace(
      graph, id,
      graph.apply("Softmax", {x}, {{"axis", static_cast<int64_t>(*axis)}}, origins, graph.value(node.outputs[0]).name));
  return true;
}

/// x - log(sum(exp(x))) along one axis.
bool to_log_softmax(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Sub" || !same_shape(graph, node.inputs[0], node.outputs[0])) return false;
  const ir::Node* sum = made_by(graph, behind_ones(graph, node.inputs[1]), "ReduceLogSumExp");
  const auto axis = sum && sum->inputs[0] == node.inputs[0] ? axis_reduced(graph, *sum) : std::nullopt;
  if (!axis || !is_of_lines(graph, node.inputs[1], node.inputs[0], *axis)) return false;
  replace(graph, id,
          graph.apply("LogSoftmax", {node.inputs[0]}, {{"axis", static_cast<int64_t>(*axis)}},
                      joined(sum->origins, node.origins), graph.value(node.outputs[0]).name));
  return true;
}

}  // namespace

bool recognise_softmax(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_softmax(graph, id) || to_log_softmax(graph, id); });
}

}  // namespace tenon::passes
