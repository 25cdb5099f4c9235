// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Of a norm that is no less than a number: that number, and the norm itself.
std::optional<double> least_of(const ir::Graph& graph, const ir::Node& node, ir::ValueId& norm) {
  if (node.op == "Clip") {
    const auto least = node.inputs.size() > 1 ? scalar(graph, node.inputs[1]) : std::nullopt;
    norm = node.inputs[0];
    return node.inputs.size() > 2 && node.inputs[2] != ir::no_value ? std::nullopt : least;
  }
  if (node.op != "Max" || node.inputs.size() != 2) return std::nullopt;
  const size_t side = graph.constant(node.inputs[0]) ? 0 : 1;
  norm = node.inputs[1 - side];
  return scalar(graph, node.inputs[side]);
}

/// The node that gives a value which nothing else uses.
const ir::Node* only_maker(const ir::Graph& graph, ir::ValueId value) {
  return graph.only_user(value) == ir::no_node ? nullptr : graph.producer(value);
}

/// x / max(|x|, epsilon), its norm along one axis.
bool to_lp_norm(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Div" || !same_shape(graph, node.inputs[0], node.outputs[0])) return false;
  const ir::Node* expand = sole(graph, node.inputs[1], "Expand");
  const ir::Node* bound = only_maker(graph, expand ? expand->inputs[0] : node.inputs[1]);
  ir::ValueId norm = ir::no_value;
  const auto epsilon = bound ? least_of(graph, *bound, norm) : std::nullopt;
  // Without a least number, 0 by 0 is none, where LpNormalization gives 0.
  const ir::Node* reduction = epsilon && *epsilon > 0 ? only_maker(graph, norm) : nullptr;
  if (!reduction || (reduction->op != "ReduceL2" && reduction->op != "ReduceL1")) return false;
  const auto rank = rank_of(graph, node.inputs[0]);
  const auto axes = reduction->inputs.size() > 1 ? integers(graph, reduction->inputs[1]) : std::nullopt;
  if (reduction->inputs[0] != node.inputs[0] || !rank || !axes || axes->size() != 1) return false;
  const auto axis = axis_of((*axes)[0], *rank);
  if (!axis || reduction->integer("keepdims", 1) == 0) return false;
  std::vector<std::string> origins = joined(reduction->origins, bound->origins);
  if (expand) origins = joined(origins, expand->origins);
  const ir::Attributes attributes{{"axis", static_cast<int64_t>(*axis)},
                                  {"p", int64_t{reduction->op == "ReduceL2" ? 2 : 1}},
                                  {"epsilon", static_cast<float>(*epsilon)}};
  replace(graph, id,
          graph.apply("LpNormalization", {node.inputs[0]}, attributes, joined(origins, node.origins),
                      graph.value(node.outputs[0]).name));
  return true;
}

}  // namespace

bool recognise_lp_norm(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_lp_norm(graph, id); });
}

}  // namespace tenon::passes
