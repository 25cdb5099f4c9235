// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "onnx/parts.h"

/// Products of com.microsoft that take transposes, a factor or an activation along:
/// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
namespace tenon::onnx::microsoft_products {
namespace {

using namespace ops::attr;

const ops::AttributeDefs factors = {flag("transA"), flag("transB"), real("alpha")};
const ops::AttributeDefs batches = {flag("transBatchA"), flag("transBatchB")};
const ops::AttributeDefs activation = {text("activation"), real("activation_alpha"), real("activation_beta"),
                                       real("activation_gamma"), integer("activation_axis")};
TENON_FORMER("com.microsoft:FusedMatMul", factors + batches);
TENON_FORMER("com.microsoft:FusedMatMulActivation", factors + batches + activation);
TENON_FORMER("com.microsoft:TransposeMatMul", factors);
TENON_FORMER("com.microsoft:FusedGemm", factors + activation + ops::AttributeDefs{real("beta")});
TENON_FORMER("com.microsoft:GemmFastGelu", {});

/// An operand with its first axis behind those of the batch, and then its last two axes swapped, each where asked for.
/// false where its rank is not known.
bool arrange(NodeImport& node, ir::ValueId& operand, bool swaps, bool batch) {
  if (!swaps && !batch) return true;
  const auto rank = node.rank(operand);
  if (!rank) return false;
  std::vector<int64_t> perm(*rank);
  std::iota(perm.begin(), perm.end(), 0);
  if (batch && *rank > 2) {
    for (size_t axis = 0; axis + 2 < *rank; ++axis) perm[axis] = static_cast<int64_t>(axis) + 1;
    perm[*rank - 2] = 0;
  }
  if (swaps && *rank > 1) std::swap(perm[*rank - 2], perm[*rank - 1]);
  operand = transposed(node, operand, perm);
  return true;
}

/// Parameters of an activation, as many as are given.
std::vector<float> parameters_of(const NodeImport& node) {
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (node.has_attribute(name)) parameters.push_back(node.real(name, 0));
  return parameters;
}

void matmul(NodeImport& node) {
  want_inputs(node, {0, 1}, 2);
  ir::ValueId a = node.input(0), b = node.input(1);
  if (!arrange(node, a, node.integer("transA", 0), node.integer("transBatchA", 0)) ||
      !arrange(node, b, node.integer("transB", 0), node.integer("transBatchB", 0)))
    return node.unsupported("a transposed operand of unknown rank");
  const float alpha = node.real("alpha", 1);
  const std::string name = node.text("activation", "");
  const std::vector<float> parameters = parameters_of(node);
  if (alpha == 1 && name.empty()) return become(node, "MatMul", {a, b});
  ir::ValueId y = node.add("MatMul", {a, b});
  if (alpha != 1) y = node.add("Mul", {y, node.scalar_like(alpha, y)});
  const bool is_softmax = name == "Softmax";
  if (is_softmax) y = node.add("Softmax", {y}, {{"axis", node.integer("activation_axis", -1)}});
  else if (!activate(node, y, name, parameters)) return node.unsupported("activation '" + name + "'");
  node.bind(0, y);
}
TENON_IMPORT(matmul, "com.microsoft:FusedMatMul", "com.microsoft:FusedMatMulActivation",
             "com.microsoft:TransposeMatMul");

void gemm(NodeImport& node) {
  want_inputs(node, {0, 1}, 3);
  ir::Attributes attributes;
  for (const char* name : {"transA", "transB", "alpha", "beta"})
    if (node.has_attribute(name)) attributes[name] = node.attributes.at(name);
  ir::ValueId y = node.add("Gemm", node.inputs, attributes);
  const std::string name = node.text("activation", "");
  if (!activate(node, y, name, parameters_of(node))) return node.unsupported("activation '" + name + "'");
  node.bind(0, y);
}
TENON_IMPORT(gemm, "com.microsoft:FusedGemm");

void gemm_gelu(NodeImport& node) {
  want_inputs(node, {0, 1}, 3);
  const ir::ValueId sums = plus(node, node.add("MatMul", {node.input(0), node.input(1)}), node.input(2));
  become(node, "Gelu", {sums}, {{"approximate", std::string("tanh")}});
}
TENON_IMPORT(gemm_gelu, "com.microsoft:GemmFastGelu");

}  // namespace
}  // namespace tenon::onnx::microsoft_products
