// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A Gemm of two values as a MatMul with what stands around it in nodes of their own.
bool to_matmul(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Gemm" || graph.constant(node.inputs[1])) return false;
  const float alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  const bool has_c = node.inputs.size() > 2 && node.inputs[2] != ir::no_value, finishes = node.has("activation") ||
                                                                                          node.has("residual");
  const ir::Shape *to = shape_of(graph, node.outputs[0]), *c = has_c ? shape_of(graph, node.inputs[2]) : nullptr;
  const DType type = graph.value(node.inputs[0]).dtype;
  if (!to || to->size() != 2 || type != DType::f32) return false;
  const bool bias = c && c->size() == 1 && (*c)[0] == to->back() && alpha == 1 && beta == 1 &&
                    graph.value(node.inputs[2]).dtype == DType::f32;
  if (finishes && (alpha != 1 || (has_c && !bias))) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto turned = [&](ir::ValueId value, const char* flag) {
    if (!node.integer(flag, 0)) return value;
    return graph.apply("Transpose", {value}, {{"perm", Perm{1, 0}}}, node.origins, name + "." + flag);
  };
  std::vector<ir::ValueId> inputs{turned(node.inputs[0], "transA"), turned(node.inputs[1], "transB")};
  if (bias || finishes) inputs.push_back(bias ? node.inputs[2] : ir::no_value);
  if (node.inputs.size() > 3) inputs.push_back(node.inputs[3]);
  ir::Attributes attributes = node.attributes;
  for (const char* own : {"transA", "transB", "alpha", "beta", "broadcast"}) attributes.erase(own);
  ir::ValueId y = graph.apply("MatMul", inputs, attributes, node.origins, name);
  const auto scaled = [&](ir::ValueId value, float factor) {
    if (factor == 1) return value;
    return graph.apply("Mul", {value, constant(graph, name + ".factor", Dims{}, {factor})}, {}, node.origins, name);
  };
  y = scaled(y, alpha);
  if (has_c && !bias) y = graph.apply("Add", {y, scaled(node.inputs[2], beta)}, {}, node.origins, name);
  replace(graph, id, y);
  return true;
}

}  // namespace

bool general_products(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_matmul(graph, id); });
}

}  // namespace tenon::passes
