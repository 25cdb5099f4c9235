// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/op.h"
#include "plan/layout.h"

namespace tenon::plan {
namespace {

using Kind = LayoutFacts::Kind;

/// Attention on a GPU reads and writes tensors with their axes in any order.
bool is_transposed_view(const ir::Graph& graph, const ir::Node& node) {
  if (graph.is_output(node.outputs[0])) return false;
  const std::vector<ir::NodeId>& users = graph.value(node.outputs[0]).users;
  return std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    return graph.node(user).op == "tenon:DotAttention" &&
           std::count(graph.node(user).inputs.begin(), graph.node(user).inputs.begin() + 3, node.outputs[0]) > 0;
  });
}

bool is_turned_write(const ir::Graph& graph, const ir::Node& node) {
  const ir::Node* producer = graph.producer(node.inputs[0]);
  return producer && producer->op == "tenon:DotAttention" && graph.only_user(node.inputs[0]) != ir::no_node;
}

LayoutFacts::Node facts_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  LayoutFacts::Node facts;
  facts.elementwise = ops::has_trait(node.op, ops::Trait::elementwise);
  facts.second = second_of_pair(graph, id);
  if (ops::has_trait(node.op, ops::Trait::view)) facts.kind = Kind::view;
  else if (node.op == "Concat") facts.kind = Kind::concat;
  else if (node.op == "Split") facts.kind = Kind::split;
  else if (node.op == "Slice") facts.kind = Kind::slice;
  else if (node.op == "Transpose" && node.has("perm")) facts.kind = Kind::transpose;
  facts.axis = node.integer("axis", 0);
  if (facts.kind != Kind::transpose) return facts;
  facts.perm = node.integers("perm");
  facts.turned_view = is_transposed_view(graph, node), facts.turned_write = is_turned_write(graph, node);
  return facts;
}

}  // namespace

LayoutFacts layout_facts(const ir::Graph& graph) {
  LayoutFacts facts;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    facts.nodes.push_back(facts_of(graph, id));
  facts.depths = depths(graph);
  return facts;
}

std::vector<int> depths(const ir::Graph& graph) {
  std::vector<int> depth(graph.nodes.size(), 0);
  for (size_t id = 0; id < graph.nodes.size(); ++id)
    for (ir::ValueId in : graph.nodes[id].inputs)
      if (in != ir::no_value && graph.value(in).producer != ir::no_node)
        depth[id] = std::max(depth[id], depth[static_cast<size_t>(graph.value(in).producer)] + 1);
  return depth;
}

ir::NodeId second_of_pair(const ir::Graph& graph, ir::NodeId first) {
  const ir::Node& node = graph.node(first);
  if (node.op != "Conv" || node.text("layout", "") != "NHWC" || node.integer("group", 1) != 1) return ir::no_node;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (!weights || weights->dims().rank() != 4 || weights->dims()[2] != 1 || weights->dims()[3] != 1) return ir::no_node;
  const ir::NodeId second = graph.only_user(node.outputs[0]);
  if (second == ir::no_node) return ir::no_node;
  const ir::Node& user = graph.node(second);
  const bool reads = user.op == "Conv" && user.inputs[0] == node.outputs[0] && user.text("layout", "") == "NHWC";
  return reads && user.integer("group", 1) > 1 ? second : ir::no_node;
}

}  // namespace tenon::plan
