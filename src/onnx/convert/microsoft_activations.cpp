// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

/// Activations of com.microsoft, and sums that come before them.
namespace tenon::onnx::microsoft_activations {
namespace {

using namespace ops::attr;

TENON_FORMER("com.microsoft:Gelu", {});
TENON_FORMER("com.microsoft:FastGelu", {});
TENON_FORMER("com.microsoft:BiasGelu", {});
TENON_FORMER("com.microsoft:BiasSplitGelu", {});
TENON_FORMER("com.microsoft:BiasAdd", {});
TENON_FORMER("com.microsoft:BiasSoftmax", {integer("axis"), integer("is_inner_broadcast")});
TENON_FORMER("com.microsoft:SwiGLU",
             {real("activation_alpha"), real("activation_beta"), real("limit"), integer("round_activation")});

void gelu(NodeImport& node) {
  const bool fast = node.op == "com.microsoft:FastGelu";
  if (node.op == "com.microsoft:BiasGelu") want_inputs(node, {0, 1}, 2);
  else want_inputs(node, {0}, fast ? 2 : 1);
  become(node, "Gelu", {plus(node, node.input(0), node.input(1))},
         {{"approximate", std::string(fast ? "tanh" : "none")}});
}
TENON_IMPORT(gelu, "com.microsoft:Gelu", "com.microsoft:FastGelu", "com.microsoft:BiasGelu");

/// The first half of each row times the GELU of the second.
void split_gelu(NodeImport& node) {
  want_inputs(node, {0, 1}, 2);
  const ir::ValueId sum = node.add("Add", {node.input(0), node.input(1)});
  const auto size = node.size(sum, -1);
  if (!size) return node.unsupported("rows of unknown length");
  const ir::ValueId left = sliced(node, sum, -1, 0, *size / 2), right = sliced(node, sum, -1, *size / 2, *size);
  become(node, "Mul", {left, node.add("Gelu", {right})});
}
TENON_IMPORT(split_gelu, "com.microsoft:BiasSplitGelu");

void bias_add(NodeImport& node) {
  want_inputs(node, {0, 1, 2}, 3);
  become(node, "Add", {node.add("Add", {node.input(0), node.input(1)}), node.input(2)});
}
TENON_IMPORT(bias_add, "com.microsoft:BiasAdd");

/// The bias is one that broadcasts as in Add: its inner axes are of one element, or its outer ones are.
void bias_softmax(NodeImport& node) {
  want_inputs(node, {0, 1}, 2);
  const auto rank = node.rank(node.input(0)), bias = node.rank(node.input(1));
  const int64_t axis = node.integer("axis", 1);
  if (!rank || !bias || (axis != -1 && axis + 1 != static_cast<int64_t>(*rank)))
    return node.unsupported("a softmax that is not known to be of the last axis");
  if (node.integer("is_inner_broadcast", 1) && *bias != *rank) return node.unsupported("a bias of another rank");
  become(node, "Softmax", {node.add("Add", {node.input(0), node.input(1)})}, {{"axis", int64_t{-1}}});
}
TENON_IMPORT(bias_softmax, "com.microsoft:BiasSoftmax");

/// gate * sigmoid(alpha * gate) * (up + beta), both of them clipped.
void swiglu(NodeImport& node) {
  want_inputs(node, {0}, 2);
  ir::ValueId gate = node.input(0), up = node.input(1);
  if (up == ir::no_value) {
    const auto size = node.size(gate, -1);
    if (!size || *size % 2) return node.unsupported("rows of unknown length");
    up = sliced(node, gate, -1, *size / 2, *size);
    gate = sliced(node, gate, -1, 0, *size / 2);
  }
  const float limit = node.real("limit", 0), alpha = node.real("activation_alpha", 1),
              beta = node.real("activation_beta", 0);
  if (limit > 0) {
    const ir::ValueId low = node.scalar_like(-limit, up), high = node.scalar_like(limit, up);
    gate = node.add("Clip", {gate, ir::no_value, high});
    up = node.add("Clip", {up, low, high});
  }
  if (beta != 0) up = node.add("Add", {up, node.scalar_like(beta, up)});
  become(node, "Mul", {node.add("com.microsoft:QuickGelu", {gate}, {{"alpha", alpha}}), up});
}
TENON_IMPORT(swiglu, "com.microsoft:SwiGLU");

}  // namespace
}  // namespace tenon::onnx::microsoft_activations
