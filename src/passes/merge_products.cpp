// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/epilogue.h"
#include "ops/expression.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether a value reaches attention alone, over nothing but reshapes, transposes, repetition for heads that share it
/// and rotary embeddings, so that a part of a wider row serves as well.
bool feeds_attention(const ir::Graph& graph, ir::ValueId id) {
  const std::vector<ir::NodeId>& users = graph.value(id).users;
  return !users.empty() && !graph.is_output(id) && std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    const ir::Node& node = graph.node(user);
    if (node.op == "tenon:DotAttention") return true;
    const bool passes = node.op == "Reshape" || node.op == "Transpose" || node.op == "Expand" ||
                        (node.op == "RotaryEmbedding" && node.inputs[0] == id);
    return passes && feeds_attention(graph, node.outputs[0]);
  });
}

/// A product by constant weights [k, n] with a constant bias or none, whose result is f32.
bool has_weights(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "MatMul" || node.inputs.size() > 3) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  const Tensor* bias = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
  return weights && weights->dtype() == DType::f32 && weights->dims().rank() == 2 &&
         (node.inputs.size() < 3 || (bias && bias->dtype() == DType::f32)) &&
         graph.value(node.outputs[0]).dtype == DType::f32 && shape_of(graph, node.outputs[0]);
}

/// One without an epilogue that makes queries, keys or values.
bool is_plain(const ir::Graph& graph, const ir::Node& node) {
  return has_weights(graph, node) && !node.has("activation") && feeds_attention(graph, node.outputs[0]);
}

/// Products of one input as one, their results side by side.
struct Merged {
  ir::ValueId product;
  std::vector<int64_t> widths;  // of the results
  std::vector<std::string> origins;
};

Merged merged(ir::Graph& graph, const std::vector<ir::NodeId>& all, const std::string& name) {
  const ir::Node& first = graph.node(all[0]);
  const ir::ValueId from = first.inputs[0];
  const int64_t k = graph.constant(first.inputs[1])->dims()[0];
  Merged result;
  int64_t width = 0;
  for (ir::NodeId one : all) {
    result.widths.push_back(graph.constant(graph.node(one).inputs[1])->dims()[1]);
    width += result.widths.back();
    result.origins = joined(result.origins, graph.node(one).origins);
  }
  Tensor weights(DType::f32, {k, width}), bias(DType::f32, {width});
  std::memset(bias.data<float>(), 0, bias.bytes());
  int64_t begin = 0;
  for (size_t at = 0; at < all.size(); ++at) {
    const ir::Node& node = graph.node(all[at]);
    const float* part = graph.constant(node.inputs[1])->data<float>();
    for (int64_t row = 0; row < k; ++row)
      std::copy_n(part + row * result.widths[at], result.widths[at], weights.data<float>() + row * width + begin);
    if (node.inputs.size() > 2)
      std::copy_n(graph.constant(node.inputs[2])->data<float>(), result.widths[at], bias.data<float>() + begin);
    begin += result.widths[at];
  }
  ir::Shape shape = *shape_of(graph, first.outputs[0]);
  shape.back() = ir::Dim(width);
  result.product = graph.apply(
      "MatMul", {from, graph.add_constant(name + ".weights", weights), graph.add_constant(name + ".bias", bias)}, {},
      result.origins, name + ".all");
  graph.value(result.product).dtype = DType::f32, graph.value(result.product).shape = shape;
  return result;
}

/// The rotary embedding that alone reads the rows of a product; no_node where there is none.
ir::NodeId rotary_of(const ir::Graph& graph, ir::NodeId product) {
  const ir::ValueId rows = graph.node(product).outputs[0];
  const ir::NodeId user = graph.only_user(rows);
  if (user == ir::no_node || graph.node(user).op != "RotaryEmbedding" || graph.node(user).inputs[0] != rows ||
      graph.node(user).integer("num_heads", 0) < 1)
    return ir::no_node;
  return user;
}

/// Whether two rotary embeddings turn heads of one size by the same angles.
bool turn_alike(const ir::Graph& graph, ir::NodeId left, ir::NodeId right) {
  if (left == ir::no_node || right == ir::no_node) return false;
  const ir::Node &a = graph.node(left), &b = graph.node(right);
  const ir::Shape *x = shape_of(graph, a.inputs[0]), *y = shape_of(graph, b.inputs[0]);
  const auto same = [&](const char* attribute) { return a.integer(attribute, 0) == b.integer(attribute, 0); };
  return x && y && std::equal(a.inputs.begin() + 1, a.inputs.end(), b.inputs.begin() + 1, b.inputs.end()) &&
         same("interleaved") && same("rotary_embedding_dim") && x->back().is_constant() && y->back().is_constant() &&
         x->back().value() * b.integer("num_heads", 0) == y->back().value() * a.integer("num_heads", 0);
}

/// Rotary embeddings of neighbouring parts of these rows, as one of all their heads.
void join_rotary(ir::Graph& graph, const std::vector<ir::NodeId>& rotary, ir::ValueId rows, const std::string& name,
                 const std::vector<int64_t>& widths) {
  ir::Node node = graph.node(rotary[0]);
  int64_t heads = 0;
  for (const ir::NodeId one : rotary) {
    heads += graph.node(one).integer("num_heads", 0);
    node.origins = joined(node.origins, graph.node(one).origins);
  }
  node.inputs[0] = rows, node.attributes["num_heads"] = heads;
  const ir::ValueId turned =
      graph.apply("RotaryEmbedding", node.inputs, node.attributes, node.origins, name + ".turned");
  graph.value(turned).dtype = DType::f32, graph.value(turned).shape = graph.value(rows).shape;
  std::vector<ir::ValueId> parts;
  for (const ir::NodeId one : rotary) {
    const ir::ValueId old = graph.node(one).outputs[0];
    parts.push_back(graph.add_value(graph.value(old).name + ".part", DType::f32, graph.value(old).shape));
    graph.replace_uses(old, parts.back());
    graph.remove(one);
  }
  graph.add_node("Split", {turned, constant(graph, name + ".turned_widths", widths)}, parts, {{"axis", int64_t{-1}}},
                 node.origins);
}

bool merge(ir::Graph& graph, ir::NodeId id) {
  if (!is_plain(graph, graph.node(id))) return false;
  const ir::ValueId from = graph.node(id).inputs[0];
  std::vector<ir::NodeId> all;
  for (ir::NodeId user : graph.value(from).users)
    if (graph.node(user).inputs[0] == from && is_plain(graph, graph.node(user))) all.push_back(user);
  if (all.size() < 2) return false;
  // Those that are turned alike come first, side by side, so that one step turns them all.
  const ir::NodeId first = rotary_of(graph, all[0]);
  const auto behind = std::stable_partition(
      all.begin(), all.end(), [&](ir::NodeId one) { return turn_alike(graph, first, rotary_of(graph, one)); });
  const auto turned = static_cast<size_t>(behind - all.begin());
  const std::string name = graph.value(graph.node(id).outputs[0]).name;
  auto [product, widths, origins] = merged(graph, all, name);
  std::vector<ir::ValueId> parts;
  size_t at = 0;
  if (turned > 1) {
    ir::Shape shape = *shape_of(graph, product);
    shape.back() = ir::Dim(std::accumulate(widths.begin(), widths.begin() + turned, int64_t{0}));
    parts.push_back(graph.add_value(name + ".rows", DType::f32, shape));
    std::vector<ir::NodeId> rotary;
    for (; at < turned; ++at) rotary.push_back(rotary_of(graph, all[at]));
    join_rotary(graph, rotary, parts[0], name, {widths.begin(), widths.begin() + turned});
    for (size_t one = 0; one < turned; ++one) graph.remove(all[one]);
    widths.erase(widths.begin() + 1, widths.begin() + turned), widths[0] = shape.back().value();
  }
  for (; at < all.size(); ++at) {
    const ir::ValueId old = graph.node(all[at]).outputs[0];
    parts.push_back(graph.add_value(graph.value(old).name + ".part", DType::f32, graph.value(old).shape));
    graph.replace_uses(old, parts.back());
    graph.remove(all[at]);
  }
  graph.add_node("Split", {product, constant(graph, name + ".widths", widths)}, parts, {{"axis", int64_t{-1}}},
                 origins);
  return true;
}

/// A product, one side of a gate: nothing else reads it.
bool is_side(const ir::Graph& graph, ir::ValueId id) {
  const ir::Node* product = sole(graph, id, "MatMul");
  return product && has_weights(graph, *product) && !graph.is_output(id);
}

/// activation(x * a) * (x * b), as gated layers of transformers have it: both products as one, and what follows as one
/// step on the halves of its rows.
bool merge_gate(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Mul" || !is_side(graph, node.inputs[0]) || !is_side(graph, node.inputs[1]) ||
      !same_shape(graph, node.inputs[0], node.inputs[1]))
    return false;
  const std::vector<ir::NodeId> sides{graph.value(node.inputs[0]).producer, graph.value(node.inputs[1]).producer};
  if (sides[0] == sides[1] || graph.node(sides[0]).inputs[0] != graph.node(sides[1]).inputs[0]) return false;
  std::vector<std::string> lines;
  std::string factors;
  for (size_t side = 0; side < 2; ++side) {
    const ops::Epilogue epilogue = ops::epilogue_of(graph.node(sides[side]));
    const ops::Expression& what = ops::expression(epilogue.activation);
    if (epilogue.activation == expr::Id::Identity) {
      factors += " %" + std::to_string(side);
      continue;
    }
    factors += " %" + std::to_string(2 + lines.size());
    if (what.parameters.count > 0 || what.operands != 1) return false;
    lines.push_back(what.word + " %" + std::to_string(side));
  }
  lines.push_back("mul" + factors);
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::Shape shape = *shape_of(graph, node.outputs[0]), half = *shape_of(graph, node.inputs[0]);
  const Merged all = merged(graph, sides, name);
  std::vector<ir::ValueId> halves;
  for (const char* suffix : {".left", ".right"}) halves.push_back(graph.add_value(name + suffix, DType::f32, half));
  graph.add_node("Split", {all.product, constant(graph, name + ".widths", all.widths)}, halves, {{"axis", int64_t{-1}}},
                 all.origins);
  const ir::ValueId result =
      graph.apply("tenon:Elementwise", halves, {{"program", lines}}, joined(all.origins, node.origins), name);
  graph.value(result).dtype = DType::f32, graph.value(result).shape = shape;
  replace(graph, id, result);
  return true;
}

}  // namespace

bool merge_products(ir::Graph& graph) {
  const bool rows = each_node(graph, [&](ir::NodeId id) { return merge(graph, id); });
  return each_node(graph, [&](ir::NodeId id) { return merge_gate(graph, id); }) || rows;
}

}  // namespace tenon::passes
