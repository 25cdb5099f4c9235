// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The one input of an elementwise node that is no number; no_value where there are others.
ir::ValueId sole_operand(const ir::Graph& graph, const ir::Node& node) {
  if (!is_elementwise(node) || node.outputs.size() != 1) return ir::no_value;
  ir::ValueId found = ir::no_value;
  for (const ir::ValueId input : node.inputs) {
    if (input == ir::no_value || scalar(graph, input)) continue;
    if (found != ir::no_value) return ir::no_value;
    found = input;
  }
  return found != ir::no_value && same_shape(graph, found, node.outputs[0]) ? found : ir::no_value;
}

bool drop_pair(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Transpose" || !node.has("perm")) return false;
  std::vector<ir::NodeId> between;
  ir::ValueId value = node.inputs[0];
  const ir::Node* first = nullptr;
  while (!(first = made_by(graph, value, "Transpose"))) {
    const ir::Node* maker = graph.producer(value);
    if (!maker || graph.only_user(value) == ir::no_node) return false;
    between.push_back(graph.value(value).producer);
    value = sole_operand(graph, *maker);
    if (value == ir::no_value) return false;
  }
  if (between.empty() || !first->has("perm") || !is_identity(compose(first->integers("perm"), node.integers("perm"))))
    return false;
  const ir::ValueId source = first->inputs[0];
  const ir::Shape* shape = shape_of(graph, source);
  if (!shape || !same_shape(graph, source, node.outputs[0])) return false;
  const ir::Shape sizes = *shape;
  ir::ValueId result = source;
  for (size_t at = between.size(); at-- > 0;) {
    const ir::Node one = graph.node(between[at]);
    std::vector<ir::ValueId> inputs = one.inputs;
    for (ir::ValueId& input : inputs)
      if (input == value) input = result;
    value = one.outputs[0];
    const ir::Value old = graph.value(value);
    result = graph.apply(one.op, inputs, one.attributes, one.origins, old.name);
    graph.value(result).dtype = old.dtype, graph.value(result).shape = sizes;
  }
  replace(graph, id, result);
  return true;
}

}  // namespace

bool cancel_apart(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return drop_pair(graph, id); });
}

}  // namespace tenon::passes
