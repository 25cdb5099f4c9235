// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether the axes before the last of `to` are those of `from`, and the others of `from` make `columns`.
bool same_rows(const ir::Shape& from, const ir::Shape& to, int64_t columns) {
  ir::Dim product(1);
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (axis + 1 >= to.size()) product = product * from[axis];
    else if (!(from[axis] == to[axis])) return false;
  }
  return from.size() >= to.size() && product == ir::Dim(columns);
}

/// The product of a matrix and another one that is constant, and the bias that is added to it.
struct RowProduct {
  ir::NodeId user;  // of the result
  ir::ValueId bias = ir::no_value;
  std::vector<std::string> origins;
};

std::optional<RowProduct> row_product_at(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Gemm" && node.op != "MatMul") return std::nullopt;
  RowProduct found{graph.only_user(node.outputs[0]), ir::no_value, node.origins};
  if (node.op == "Gemm") {
    if (node.integer("transA", 0) || node.real("alpha", 1) != 1 || node.real("beta", 1) != 1) return std::nullopt;
    if (node.inputs.size() > 2) found.bias = node.inputs[2];
    return found;
  }
  if (node.inputs.size() != 2 || rank_of(graph, node.inputs[0]) != 2 ||
      rank_of(graph, node.inputs[1]) != 2 || found.user == ir::no_node)
    return std::nullopt;
  const ir::Node& add = graph.node(found.user);
  if (add.op != "Add") return found;
  found.bias = add.inputs[add.inputs[0] == node.outputs[0] ? 1 : 0];
  found.origins = joined(found.origins, add.origins);
  found.user = graph.only_user(add.outputs[0]);
  return graph.constant(found.bias) ? std::optional(found) : std::nullopt;
}

/// Reshape to rows, product by constant weights and Reshape back become a MatMul over the axes that the rows were. A
/// Transpose of those axes behind it goes before it, where it may meet another.
bool keep(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const auto product = row_product_at(graph, node);
  if (!product) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  const ir::Node* flat = made_by(graph, node.inputs[0], "Reshape");
  const ir::NodeId user = product->user;
  if (!weights || weights->dtype() != DType::f32 || !flat || user == ir::no_node || graph.node(user).op != "Reshape")
    return false;
  const bool bias = product->bias != ir::no_value;
  const Tensor* row = bias ? graph.constant(product->bias) : nullptr;
  const bool transposed = node.integer("transB", 0) != 0;
  const int64_t k = weights->dims()[transposed ? 1 : 0], n = weights->dims()[transposed ? 0 : 1];
  if (bias && (!row || row->dims().rank() == 0 || row->dims().back() != n || row->elements() != n)) return false;
  const ir::Node back = graph.node(user);
  const ir::Shape *before = shape_of(graph, flat->inputs[0]), *flat_shape = shape_of(graph, node.inputs[0]),
                  *to = shape_of(graph, back.outputs[0]);
  if (!before || !flat_shape || !to || to->size() < 3 || !(to->back() == ir::Dim(n))) return false;
  const size_t rows = to->size() - 1;
  const bool same = same_rows(*before, *to, k);
  const ir::Shape* from = same ? before : flat_shape;
  ir::Shape whole(to->begin(), to->end() - 1);
  whole.push_back(ir::Dim(k));
  const auto target = reshape_target(*from, whole);
  if (!target) return false;
  const std::string name = graph.value(back.outputs[0]).name;
  auto origins = joined(flat->origins, product->origins);
  const Tensor matrix = transposed ? permuted(*weights, {1, 0}) : *weights;
  ir::Shape result = *to, source = *from;
  ir::ValueId x = same ? flat->inputs[0] : node.inputs[0];
  ir::NodeId last = user;
  auto shaped = target;
  if (const ir::NodeId turn = graph.only_user(back.outputs[0]); same && turn != ir::no_node) {
    Perm perm = graph.node(turn).op == "Transpose" ? graph.node(turn).integers("perm") : Perm{};
    if (!perm.empty() && perm.back() == static_cast<int64_t>(rows)) {
      const ir::Shape after = permuted(result, perm), narrow = permuted(whole, perm);
      while (perm.size() < source.size()) perm.push_back(static_cast<int64_t>(perm.size()));
      if (const auto again = reshape_target(permuted(source, perm), narrow)) {
        origins = joined(origins, graph.node(turn).origins);
        const DType dtype = graph.value(x).dtype;
        x = graph.apply("Transpose", {x}, {{"perm", perm}}, graph.node(turn).origins, name + ".transposed");
        source = permuted(source, perm), whole = narrow, result = after, shaped = again, last = turn;
        graph.value(x).dtype = dtype, graph.value(x).shape = source;
      }
    }
  }
  if (!(source == whole)) {
    x = graph.apply("Reshape", {x, constant(graph, name + ".rows", *shaped)}, {}, origins, name + ".in");
    graph.value(x).dtype = DType::f32, graph.value(x).shape = whole;
  }
  ir::ValueId y = graph.apply("MatMul", {x, graph.add_constant(name + ".weights", matrix)}, {},
                              joined(origins, back.origins), name + ".product");
  if (bias) {
    graph.value(y).dtype = DType::f32, graph.value(y).shape = result;
    const ir::ValueId vector = graph.add_constant(name + ".bias", graph.constant(product->bias)->reshaped({n}));
    y = graph.apply("Add", {y, vector}, {}, product->origins, name);
  }
  replace(graph, last, y);
  return true;
}

}  // namespace

bool keep_rows(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return keep(graph, id); });
}

}  // namespace tenon::passes
