// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/control_flow.h"
#include "ops/op.h"
#include "plan/layout.h"

namespace tenon::plan {
namespace {

using Kind = LayoutFacts::Kind;

/// Whether all who read it take axes in any order.
bool is_transposed_view(const ir::Graph& graph, const ir::Node& node) {
  if (graph.is_output(node.outputs[0])) return false;
  const std::vector<ir::NodeId>& users = graph.value(node.outputs[0]).users;
  return std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    return ops::has_trait(graph.node(user).op, ops::Trait::any_order) &&
           std::count(graph.node(user).inputs.begin(), graph.node(user).inputs.begin() + 3, node.outputs[0]) > 0;
  });
}

/// A matrix that all rows are multiplied by: such products have kernels that want their rows as they are.
bool is_one_matrix(const ir::Graph& graph, ir::ValueId id) {
  const Tensor* constant = graph.constant(id);
  return constant && constant->dims().rank() < 3;
}

/// A matrix multiplication of values by values, or by a constant matrix for each of a batch.
bool is_batched_product(const ir::Graph& graph, const ir::Node& node) {
  return ops::has_trait(node.op, ops::Trait::integer_form) && !ops::has_trait(node.op, ops::Trait::convolution) &&
         node.inputs.size() >= 2 && !is_one_matrix(graph, node.inputs[0]) && !is_one_matrix(graph, node.inputs[1]);
}

/// Whether all who read it are such products.
bool is_factor(const ir::Graph& graph, const ir::Node& node) {
  if (graph.is_output(node.outputs[0])) return false;
  const std::vector<ir::NodeId>& users = graph.value(node.outputs[0]).users;
  return std::all_of(users.begin(), users.end(), [&](ir::NodeId id) {
    const ir::Node& user = graph.node(id);
    return is_batched_product(graph, user) &&
           std::count(user.inputs.begin(), user.inputs.begin() + 2, node.outputs[0]) > 0;
  });
}

bool is_transposed_write(const ir::Graph& graph, const ir::Node& node, ops::Trait trait) {
  const ir::Node* producer = graph.producer(node.inputs[0]);
  return producer && ops::has_trait(producer->op, trait) && graph.only_user(node.inputs[0]) != ir::no_node;
}

bool is_product_write(const ir::Graph& graph, const ir::Node& node) {
  const ir::Node* producer = graph.producer(node.inputs[0]);
  return producer && is_batched_product(graph, *producer) && graph.only_user(node.inputs[0]) != ir::no_node;
}

LayoutFacts::Node facts_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  LayoutFacts::Node facts;
  facts.elementwise = ops::has_trait(node.op, ops::Trait::elementwise);
  if (ops::has_trait(node.op, ops::Trait::view)) facts.kind = Kind::view;
  else if (ops::has_trait(node.op, ops::Trait::joins)) facts.kind = Kind::concat;
  else if (ops::has_trait(node.op, ops::Trait::splits)) facts.kind = Kind::split;
  else if (ops::has_trait(node.op, ops::Trait::slices)) facts.kind = Kind::slice;
  else if (ops::has_trait(node.op, ops::Trait::permutes) && node.has("perm")) facts.kind = Kind::transpose;
  facts.axis = node.integer("axis", 0);
  if (facts.kind != Kind::transpose) return facts;
  facts.perm = node.integers("perm");
  facts.transposed_view = is_transposed_view(graph, node);
  facts.transposed_write = is_transposed_write(graph, node, ops::Trait::any_order);
  facts.device_write = is_transposed_write(graph, node, ops::Trait::any_result);
  facts.factor = is_factor(graph, node), facts.product_write = is_product_write(graph, node);
  return facts;
}

}  // namespace

LayoutFacts layout_facts(const ir::Graph& graph) {
  LayoutFacts facts;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    facts.nodes.push_back(facts_of(graph, id));
  facts.depths = depths(graph);
  facts.whole.assign(graph.values.size(), 0);
  for (const ir::Node& node : graph.nodes) {
    if (ops::bodies_of(node).empty()) continue;
    for (const auto* list : {&node.inputs, &node.outputs})
      for (const ir::ValueId value : *list)
        if (value != ir::no_value) facts.whole[static_cast<size_t>(value)] = 1;
  }
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

}  // namespace tenon::plan
