// SPDX-License-Identifier: Apache-2.0

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Values by transposed weights of an attention, V W', as the transposed product W V', which attention is known by.
bool turn(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "MatMul" || node.inputs.size() != 2 || node.has("activation")) return false;
  const ir::Node* flip = sole(graph, node.inputs[1], "Transpose");
  const ir::Node* softmax = flip ? sole(graph, flip->inputs[0], "Softmax") : nullptr;
  const auto rank = rank_of(graph, node.inputs[0]);
  if (!softmax || !rank || *rank < 3 || rank_of(graph, node.inputs[1]) != rank || graph.constant(node.inputs[0]) ||
      !flip->has("perm") || flip->integers("perm") != swapped(*rank) || !shape_of(graph, node.outputs[0]))
    return false;
  const Perm perm = swapped(*rank);
  const ir::ValueId weights = flip->inputs[0];
  const auto origins = joined(flip->origins, node.origins);
  const ir::ValueId output = node.outputs[0];
  const std::string name = graph.value(output).name;
  const ir::Shape shape = *shape_of(graph, output);
  const DType type = graph.value(output).dtype;
  const auto known = [&](ir::ValueId value, const ir::Shape& sizes) {
    graph.value(value).dtype = type, graph.value(value).shape = sizes;
    return value;
  };
  // The values themselves may be transposed already.
  ir::ValueId from = node.inputs[0];
  Perm order = perm;
  if (const ir::Node* before = made_by(graph, from, "Transpose"); before && before->has("perm")) {
    order = compose(before->integers("perm"), perm);
    from = before->inputs[0];
  }
  const ir::Shape* given = shape_of(graph, from);
  if (!given) return false;
  const ir::Shape turned = permuted(*given, order);
  if (!is_identity(order))
    from = known(graph.apply("Transpose", {from}, {{"perm", order}}, origins, name + ".values"), turned);
  const ir::ValueId product =
      known(graph.apply("MatMul", {weights, from}, {}, origins, name + ".transposed"), permuted(shape, perm));
  replace(graph, id, graph.apply("Transpose", {product}, {{"perm", perm}}, origins, name));
  return true;
}

}  // namespace

bool transpose_matmuls(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return turn(graph, id); });
}

}  // namespace tenon::passes
