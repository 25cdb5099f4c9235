// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "ops/floats.h"
#include "ops/half.h"
#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t fewest_elements = 4096;  // worth another type

bool is_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value), exponent = bits >> 23 & 0xff;
  if (exponent >= 113 && exponent <= 142) return (bits & 0x1fff) == 0;
  return std::bit_cast<uint32_t>(ops::f16_value(ops::f16_bits(value))) == bits;
}
bool is_bf16(float value) { return (std::bit_cast<uint32_t>(value) & 0xffff) == 0; }

/// The type of 16 bits that has all of these numbers; undefined where none has.
DType type_of(const Tensor& tensor) {
  const auto numbers = tensor.values<float>();
  if (std::all_of(numbers.begin(), numbers.end(), is_f16)) return DType::f16;
  return std::all_of(numbers.begin(), numbers.end(), is_bf16) ? DType::bf16 : DType::undefined;
}

Tensor cast(const Tensor& tensor, DType type) {
  Tensor result(type, tensor.dims());
  const auto bits = type == DType::f16 ? ops::f16_bits : ops::bf16_bits;
  std::transform(tensor.data<float>(), tensor.data<float>() + tensor.elements(), result.data<uint16_t>(), bits);
  return result;
}

/// Weights of a convolution, or a matrix that rows are multiplied by.
bool is_weight(const ir::Graph& graph, const ir::Node& node, size_t input) {
  if (input != 1 || !ops::has_trait(node.op, ops::Trait::integer_form)) return false;
  const size_t rank = graph.constant(node.inputs[1])->dims().rank();
  return rank == 2 || ops::has_trait(node.op, ops::Trait::convolution);
}
bool is_table(const ir::Node& node, size_t input) { return input == 0 && node.op == "Gather"; }

/// Whether all that use a constant take it in another type.
bool may_change(const ir::Graph& graph, ir::ValueId id) {
  for (const ir::NodeId user : graph.value(id).users) {
    const ir::Node& node = graph.node(user);
    for (size_t input = 0; input < node.inputs.size(); ++input)
      if (node.inputs[input] == id && !is_weight(graph, node, input) && !is_table(node, input)) return false;
  }
  return !graph.is_output(id) && !graph.value(id).users.empty();
}

/// A table's rows are cast where they were picked.
void cast_rows(ir::Graph& graph, ir::NodeId id) {
  const ir::ValueId rows = graph.node(id).outputs[0];
  const ir::ValueId wide = graph.add_value(graph.value(rows).name + ".f32", DType::f32, graph.value(rows).shape);
  graph.replace_uses(rows, wide);
  graph.value(rows).dtype = DType::undefined;
  graph.add_node("Cast", {rows}, {wide}, {{"to", static_cast<int64_t>(DType::f32)}}, graph.node(id).origins);
}

}  // namespace

bool weights_to_16_bits(ir::Graph& graph) {
  bool changed = false;
  const auto count = static_cast<ir::ValueId>(graph.values.size());
  for (ir::ValueId id = 0; id < count; ++id) {
    const Tensor* given = graph.constant(id);
    if (!given || given->dtype() != DType::f32 || given->elements() < fewest_elements || !may_change(graph, id))
      continue;
    const DType type = type_of(*given);
    if (type == DType::undefined) continue;
    ir::Value& value = graph.value(id);
    value.constant = cast(value.constant, type);
    value.dtype = type;
    const std::vector<ir::NodeId> users = value.users;
    for (const ir::NodeId user : users)
      if (graph.node(user).op == "Gather") cast_rows(graph, user);
    changed = true;
  }
  return changed;
}

bool weights_to_f32(ir::Graph& graph) {
  bool changed = false;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id) {
    const ir::Node& node = graph.node(id);
    if (!node.alive || node.inputs.size() < 2 || !ops::has_trait(node.op, ops::Trait::integer_form)) continue;
    const Tensor* given = graph.constant(node.inputs[1]);
    if (!given || ops::wide_type(given->dtype()) == given->dtype()) continue;
    if (graph.value(node.inputs[0]).dtype != DType::f32) continue;
    const ir::ValueId wide = graph.add_constant(graph.value(node.inputs[1]).name + ".f32", ops::as_f32(*given));
    graph.set_input(id, 1, wide);
    changed = true;
  }
  return changed;
}

}  // namespace tenon::passes
