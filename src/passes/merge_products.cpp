// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether a value reaches attention alone, over nothing but reshapes and transposes, so that a part of a wider row
/// serves as well.
bool feeds_attention(const ir::Graph& graph, ir::ValueId id) {
  const std::vector<ir::NodeId>& users = graph.value(id).users;
  return !users.empty() && !graph.is_output(id) && std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    const ir::Node& node = graph.node(user);
    if (node.op == "tenon:DotAttention") return true;
    return (node.op == "Reshape" || node.op == "Transpose") && feeds_attention(graph, node.outputs[0]);
  });
}

/// A product by constant weights [k, n] with a constant bias or none, and no epilogue.
bool is_plain(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "MatMul" || node.inputs.size() > 3 || node.has("activation")) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  const Tensor* bias = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
  return weights && weights->dtype() == DType::f32 && weights->dims().rank() == 2 &&
         (node.inputs.size() < 3 || (bias && bias->dtype() == DType::f32)) &&
         graph.value(node.outputs[0]).dtype == DType::f32 && shape_of(graph, node.outputs[0]) &&
         feeds_attention(graph, node.outputs[0]);
}

bool merge(ir::Graph& graph, ir::NodeId id) {
  if (!is_plain(graph, graph.node(id))) return false;
  const ir::ValueId from = graph.node(id).inputs[0];
  std::vector<ir::NodeId> all;
  for (ir::NodeId user : graph.value(from).users)
    if (graph.node(user).inputs[0] == from && is_plain(graph, graph.node(user))) all.push_back(user);
  if (all.size() < 2) return false;
  const int64_t k = graph.constant(graph.node(id).inputs[1])->dims()[0];
  std::vector<int64_t> widths;
  int64_t width = 0;
  std::vector<std::string> origins;
  for (ir::NodeId one : all) {
    widths.push_back(graph.constant(graph.node(one).inputs[1])->dims()[1]);
    width += widths.back();
    origins = joined(origins, graph.node(one).origins);
  }
  Tensor weights(DType::f32, {k, width}), bias(DType::f32, {width});
  std::memset(bias.data<float>(), 0, bias.bytes());
  int64_t begin = 0;
  for (size_t at = 0; at < all.size(); ++at) {
    const ir::Node& node = graph.node(all[at]);
    const float* part = graph.constant(node.inputs[1])->data<float>();
    for (int64_t row = 0; row < k; ++row)
      std::copy_n(part + row * widths[at], widths[at], weights.data<float>() + row * width + begin);
    if (node.inputs.size() > 2)
      std::copy_n(graph.constant(node.inputs[2])->data<float>(), widths[at], bias.data<float>() + begin);
    begin += widths[at];
  }
  const std::string name = graph.value(graph.node(id).outputs[0]).name;
  ir::Shape shape = *shape_of(graph, graph.node(id).outputs[0]);
  shape.back() = ir::Dim(width);
  const ir::ValueId product = graph.apply(
      "MatMul", {from, graph.add_constant(name + ".weights", weights), graph.add_constant(name + ".bias", bias)}, {},
      origins, name + ".all");
  graph.value(product).dtype = DType::f32, graph.value(product).shape = shape;
  std::vector<ir::ValueId> parts;
  for (size_t at = 0; at < all.size(); ++at) {
    const ir::ValueId old = graph.node(all[at]).outputs[0];
    parts.push_back(graph.add_value(graph.value(old).name + ".part", DType::f32, graph.value(old).shape));
    graph.replace_uses(old, parts.back());
    graph.remove(all[at]);
  }
  graph.add_node("Split", {product, constant(graph, name + ".widths", widths)}, parts, {{"axis", int64_t{-1}}},
                 origins);
  return true;
}

}  // namespace

bool merge_products(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return merge(graph, id); });
}

}  // namespace tenon::passes
