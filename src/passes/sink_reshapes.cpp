// SPDX-License-Identifier: Apache-2.0
#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether a constant has one number for each element of the last axis.
bool is_row(const Tensor& tensor, const ir::Dim& columns) {
  const int64_t count = tensor.elements();
  return tensor.dims().rank() > 0 && tensor.dims().back() == count && ir::Dim(count) == columns;
}

/// Whether a softmax alone reads it. The scale of queries or keys is left to attention.
bool is_score(const ir::Graph& graph, ir::ValueId value) {
  const ir::NodeId user = graph.only_user(value);
  return user != ir::no_node && ops::has_trait(graph.node(user).op, ops::Trait::softmax);
}

/// The steps between a product and what scales or shifts it, the last one first.
std::vector<ir::Node> moves_before(const ir::Graph& graph, ir::ValueId value, const Tensor& numbers, bool score) {
  std::vector<ir::Node> moves;
  const ir::Node* reshape = sole(graph, value, "Reshape");
  const ir::Shape* from = reshape ? shape_of(graph, reshape->inputs[0]) : nullptr;
  const ir::Shape* to = shape_of(graph, value);
  if (from && to && !from->empty() && !to->empty() && from->back() == to->back() && is_row(numbers, to->back()))
    return {*reshape};
  if (numbers.elements() != 1 || !score) return {};
  for (;;) {
    const ir::Node *reshaped = sole(graph, value, "Reshape"), *transpose = sole(graph, value, "Transpose");
    if (!reshaped && !transpose) return moves;
    moves.push_back(reshaped ? *reshaped : *transpose);
    value = moves.back().inputs[0];
  }
}

/// A product seen under other rows, then scaled or shifted by column, is scaled first: there fold_scale finds it, and
/// behind it a second Reshape takes the first one back. One number of all scores goes before any moves.
bool sink(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Mul" && node.op != "Add" && node.op != "Sub" && node.op != "Div") return false;
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const ir::ValueId value = node.inputs[at];
    const Tensor* numbers = graph.constant(node.inputs[1 - at]);
    if (!numbers || !same_shape(graph, value, node.outputs[0])) continue;
    const std::vector<ir::Node> moves = moves_before(graph, value, *numbers, is_score(graph, node.outputs[0]));
    if (moves.empty()) continue;
    const ir::ValueId source = moves.back().inputs[0];
    const ir::Node* maker = graph.producer(source);
    const bool of_product = maker && (maker->op == "MatMul" || is_elementwise(*maker));
    if (!of_product || graph.only_user(source) == ir::no_node || !shape_of(graph, source)) continue;
    const std::string name = graph.value(node.outputs[0]).name;
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[at] = source;
    if (numbers->dims().rank() > 1)
      inputs[1 - at] = graph.add_constant(name + ".row", numbers->reshaped({numbers->elements()}));
    ir::ValueId moved = graph.apply(node.op, inputs, node.attributes, node.origins, name);
    graph.value(moved).dtype = graph.value(source).dtype, graph.value(moved).shape = graph.value(source).shape;
    for (size_t step = moves.size(); step-- > 0;) {
      std::vector<ir::ValueId> operands = moves[step].inputs;
      operands[0] = moved;
      moved = graph.apply(moves[step].op, operands, moves[step].attributes, moves[step].origins, name);
    }
    replace(graph, id, moved);
    return true;
  }
  return false;
}

}  // namespace

bool sink_reshapes(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return sink(graph, id); });
}

}  // namespace tenon::passes
