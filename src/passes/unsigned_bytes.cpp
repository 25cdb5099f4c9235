// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Signed bytes that only quantisers see become unsigned ones, with a zero point that is 128 higher. An absent zero
/// point becomes a number.
bool make_unsigned(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "QuantizeLinear" || !is_one(graph, node.inputs[1], DType::f32)) return false;
  const ir::ValueId stored = node.outputs[0];
  const DType dtype = graph.value(stored).dtype;
  const bool has_zero = node.inputs.size() > 2 && node.inputs[2] != ir::no_value;
  if (dtype == DType::u8 && has_zero) return false;
  if ((dtype != DType::i8 && dtype != DType::u8) || graph.is_output(stored)) return false;
  if (has_zero && !is_one(graph, node.inputs[2], DType::i8)) return false;
  for (ir::NodeId user : graph.value(stored).users)
    if (graph.node(user).op != "DequantizeLinear" || !is_one(graph, graph.node(user).inputs[1], DType::f32))
      return false;
  const int zero = (has_zero ? graph.constant(node.inputs[2])->data<int8_t>()[0] : 0) + (dtype == DType::i8 ? 128 : 0);
  const ir::ValueId constant =
      graph.add_constant("", Tensor::of<uint8_t>(DType::u8, {}, std::vector{static_cast<uint8_t>(zero)}));
  std::vector<ir::NodeId> ends = graph.value(stored).users;
  ends.push_back(id);
  for (ir::NodeId end : ends) {
    if (graph.node(end).inputs.size() > 2) graph.set_input(end, 2, constant);
    else graph.add_input(end, constant);
    graph.node(end).attributes.erase("output_dtype");
  }
  graph.value(stored).dtype = DType::u8;
  return true;
}

}  // namespace

bool unsigned_bytes(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return make_unsigned(graph, id); });
}

}  // namespace tenon::passes
