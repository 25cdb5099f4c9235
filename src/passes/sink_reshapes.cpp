// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether a constant has one number for each element of the last axis.
bool is_row(const Tensor& tensor, const ir::Dim& columns) {
  const int64_t count = tensor.elements();
  return tensor.dims().rank() > 0 && tensor.dims().back() == count && ir::Dim(count) == columns;
}

/// A product seen under other rows, then scaled or shifted by column, is scaled first: there fold_scale finds it, and
/// behind it a second Reshape takes the first one back.
bool sink(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Mul" && node.op != "Add" && node.op != "Sub" && node.op != "Div") return false;
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const ir::ValueId value = node.inputs[at];
    const ir::Node* reshape = sole(graph, value, "Reshape");
    const Tensor* numbers = graph.constant(node.inputs[1 - at]);
    const ir::Shape* from = reshape ? shape_of(graph, reshape->inputs[0]) : nullptr;
    const ir::Shape* to = shape_of(graph, value);
    if (!numbers || !from || !to || from->empty() || to->empty() || !(from->back() == to->back())) continue;
    if (!is_row(*numbers, to->back()) || !same_shape(graph, value, node.outputs[0])) continue;
    const ir::ValueId source = reshape->inputs[0];
    const ir::Node* maker = graph.producer(source);
    const bool of_product = maker && (maker->op == "MatMul" || is_elementwise(*maker));
    if (!of_product || graph.only_user(source) == ir::no_node) continue;
    const std::string name = graph.value(node.outputs[0]).name;
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[at] = source;
    if (numbers->dims().rank() > 1)
      inputs[1 - at] = graph.add_constant(name + ".row", numbers->reshaped({numbers->elements()}));
    const ir::ValueId sizes = reshape->inputs[1];
    const ir::Attributes attributes = reshape->attributes;
    const std::vector<std::string> origins = reshape->origins;
    const ir::Shape shape = *from;
    const ir::ValueId moved = graph.apply(node.op, inputs, node.attributes, node.origins, name);
    graph.value(moved).dtype = graph.value(source).dtype, graph.value(moved).shape = shape;
    replace(graph, id, graph.apply("Reshape", {moved, sizes}, attributes, origins, name));
    return true;
  }
  return false;
}

}  // namespace

bool sink_reshapes(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return sink(graph, id); });
}

}  // namespace tenon::passes
