// SPDX-License-Identifier: Apache-2.0
#include "ops/half.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool is_16_bit(DType type) { return type == DType::f16 || type == DType::bf16; }

Tensor as_f32(const Tensor& tensor) {
  Tensor result(DType::f32, tensor.dims());
  const bool bf16 = tensor.dtype() == DType::bf16;
  for (int64_t at = 0; at < tensor.elements(); ++at) {
    const uint16_t bits = tensor.data<uint16_t>()[at];
    result.data<float>()[at] = bf16 ? ops::bf16_value(bits) : ops::f16_value(bits);
  }
  return result;
}

/// Attributes that name an element type, and tensors held in attributes.
bool cast_attributes(ir::Node& node) {
  bool changed = false;
  for (auto& [key, attribute] : node.attributes) {
    if (auto* tensor = std::get_if<Tensor>(&attribute); tensor && is_16_bit(tensor->dtype())) {
      *tensor = as_f32(*tensor);
      changed = true;
    }
    auto* type = std::get_if<int64_t>(&attribute);
    if (type && (key == "to" || key == "dtype" || key == "output_dtype") && is_16_bit(static_cast<DType>(*type))) {
      *type = static_cast<int64_t>(DType::f32);
      changed = true;
    }
  }
  return changed;
}

/// Bits of a narrow float have a meaning of their own to these.
bool needs_exact_types(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes) {
    if (!node.alive) continue;
    if (node.op == "BitCast" || node.op.str().starts_with("Sequence") || node.op.str().starts_with("Optional"))
      return true;
    for (const auto& [key, attribute] : node.attributes)
      if (const auto* inner = std::get_if<ir::GraphRef>(&attribute); inner && needs_exact_types(**inner)) return true;
  }
  return false;
}

bool cast_inside(ir::Graph& graph) {
  bool changed = false;
  for (ir::Value& value : graph.values) {
    if (!is_16_bit(value.dtype)) continue;
    if (value.is_constant()) value.constant = as_f32(value.constant);
    value.dtype = DType::f32;
    changed = true;
  }
  for (ir::Node& node : graph.nodes) {
    if (!node.alive) continue;
    if (cast_attributes(node)) changed = true;
    for (auto& [key, attribute] : node.attributes)
      if (auto* inner = std::get_if<ir::GraphRef>(&attribute)) {
        // Graphs are shared by reference: the copy keeps other holders as they were.
        auto copy = std::make_shared<ir::Graph>(**inner);
        if (cast_inside(*copy)) {
          attribute = copy;
          changed = true;
        }
      }
  }
  return changed;
}

}  // namespace

bool cast_to_f32(ir::Graph& graph) {
  if (needs_exact_types(graph)) return false;
  std::vector<DType> inputs, outputs;
  for (ir::ValueId id : graph.inputs) inputs.push_back(graph.value(id).dtype);
  for (ir::ValueId id : graph.outputs) outputs.push_back(graph.value(id).dtype);
  if (!cast_inside(graph)) return false;
  for (size_t at = 0; at < inputs.size(); ++at) {
    if (!is_16_bit(inputs[at])) continue;
    const ir::ValueId input = graph.inputs[at];
    const ir::ValueId wide = graph.add_value(graph.value(input).name + ".f32", DType::f32, graph.value(input).shape);
    graph.replace_uses(input, wide);
    graph.add_node("Cast", {input}, {wide}, {{"to", static_cast<int64_t>(DType::f32)}});
    graph.value(input).dtype = inputs[at];
  }
  for (size_t at = 0; at < outputs.size(); ++at)
    if (is_16_bit(outputs[at]))
      graph.outputs[at] = graph.apply("Cast", {graph.outputs[at]}, {{"to", static_cast<int64_t>(outputs[at])}}, {},
                                      graph.value(graph.outputs[at]).name + ".narrow");
  return true;
}

}  // namespace tenon::passes
