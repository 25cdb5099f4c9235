// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

ir::Shape long_axes(const ir::Shape& shape, size_t begin, size_t end) {
  ir::Shape result;
  for (size_t axis = begin; axis < end; ++axis)
    if (!(shape[axis] == ir::Dim(1))) result.push_back(shape[axis]);
  return result;
}

/// Matrices of a product, with the axes of its batch before a Reshape joined them.
struct JoinedBatch {
  ir::ValueId value = ir::no_value;  // before the Reshape
  ir::Shape batch, whole;            // the axes apart, and with those of the matrices
  bool transposed = false;
  std::vector<std::string> origins;

  JoinedBatch(const ir::Graph& graph, ir::ValueId from) {
    if (const ir::Node* turn = made_by(graph, from, "Transpose"); turn && turn->integers("perm") == Perm{0, 2, 1}) {
      transposed = true;
      origins = turn->origins;
      from = turn->inputs[0];
    }
    const ir::Node* join = made_by(graph, from, "Reshape");
    const ir::Shape *before = join ? shape_of(graph, join->inputs[0]) : nullptr, *to = shape_of(graph, from);
    if (!before || !to || to->size() != 3 || before->size() < 4) return;
    size_t axes = 0;
    for (ir::Dim size(1); axes < before->size() && !(size == (*to)[0]);) size = size * (*before)[axes++];
    batch = long_axes(*before, 0, axes);
    if (batch.size() < 2 || long_axes(*before, axes, before->size()) != long_axes(*to, 1, 3)) return;
    whole = batch;
    whole.insert(whole.end(), to->begin() + 1, to->end());
    if (!reshape_target(*before, whole)) return;
    value = join->inputs[0];
    origins = joined(join->origins, origins);
  }

  ir::ValueId apart(ir::Graph& graph, const std::string& name) const {
    const auto target = *reshape_target(*shape_of(graph, value), whole);
    const DType dtype = graph.value(value).dtype;
    ir::ValueId result = graph.apply("Reshape", {value, constant(graph, name + ".shape", target)}, {}, origins, name);
    graph.value(result).dtype = dtype, graph.value(result).shape = whole;
    if (!transposed) return result;
    const Perm perm = swapped(whole.size());
    result = graph.apply("Transpose", {result}, {{"perm", perm}}, origins, name + ".transposed");
    graph.value(result).dtype = dtype, graph.value(result).shape = permuted(whole, perm);
    return result;
  }
};

bool split_batch(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Shape* to = node.op == "MatMul" ? shape_of(graph, node.outputs[0]) : nullptr;
  if (!to || to->size() != 3 || node.inputs.size() != 2) return false;
  const JoinedBatch a(graph, node.inputs[0]), b(graph, node.inputs[1]);
  if (a.value == ir::no_value || b.value == ir::no_value || a.batch != b.batch) return false;
  ir::Shape whole = a.batch;
  whole.insert(whole.end(), to->begin() + 1, to->end());
  // Reshapes behind it, which may take the axes apart again, become one.
  ir::NodeId last = id;
  std::vector<std::string> origins = node.origins;
  for (ir::NodeId user; (user = graph.only_user(graph.node(last).outputs[0])) != ir::no_node; last = user) {
    const ir::Shape* shape = graph.node(user).op == "Reshape" ? shape_of(graph, graph.node(user).outputs[0]) : nullptr;
    if (!shape || !reshape_target(whole, *shape)) break;
    to = shape;
    origins = joined(origins, graph.node(user).origins);
  }
  const auto target = reshape_target(whole, *to);
  if (!target) return false;
  const bool same = *to == whole;
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::ValueId left = a.apart(graph, name + ".a"), right = b.apart(graph, name + ".b");
  ir::ValueId product = graph.apply("MatMul", {left, right}, {}, node.origins, name + ".apart");
  graph.value(product).dtype = graph.value(node.outputs[0]).dtype, graph.value(product).shape = whole;
  if (!same) product = graph.apply("Reshape", {product, constant(graph, name + ".shape", *target)}, {}, origins, name);
  replace(graph, last, product);
  return true;
}

}  // namespace

bool split_batches(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return split_batch(graph, id); });
}

}  // namespace tenon::passes
