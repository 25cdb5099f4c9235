// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <vector>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The zero point of a quantiser or its reader as that of unsigned bytes: 128 higher where `bytes` are signed; nullopt
/// where it is no one number of their type. An absent one is 0.
std::optional<uint8_t> unsigned_zero(const ir::Graph& graph, const ir::Node& node, DType bytes) {
  const int higher = bytes == DType::i8 ? 128 : 0;
  if (node.inputs.size() < 3 || node.inputs[2] == ir::no_value) return static_cast<uint8_t>(higher);
  if (!is_one(graph, node.inputs[2], bytes)) return std::nullopt;
  const Tensor& zero = *graph.constant(node.inputs[2]);
  return static_cast<uint8_t>(higher ? zero.data<int8_t>()[0] + higher : zero.data<uint8_t>()[0]);
}

/// Signed bytes that only quantisers see become unsigned ones, with zero points that are 128 higher. An absent zero
/// point becomes a number.
bool make_unsigned(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "QuantizeLinear" || !is_one(graph, node.inputs[1], DType::f32)) return false;
  const ir::ValueId stored = node.outputs[0];
  const DType dtype = graph.value(stored).dtype;
  if ((dtype != DType::i8 && dtype != DType::u8) || graph.is_output(stored)) return false;
  std::vector<ir::NodeId> ends = graph.value(stored).users;
  for (ir::NodeId user : ends)
    if (graph.node(user).op != "DequantizeLinear" || !is_one(graph, graph.node(user).inputs[1], DType::f32))
      return false;
  ends.push_back(id);
  std::vector<uint8_t> zeros;
  bool absent = false;
  for (ir::NodeId end : ends) {
    const std::optional<uint8_t> zero = unsigned_zero(graph, graph.node(end), dtype);
    if (!zero) return false;
    zeros.push_back(*zero);
    absent |= graph.node(end).inputs.size() < 3 || graph.node(end).inputs[2] == ir::no_value;
  }
  if (dtype == DType::u8 && !absent) return false;
  std::map<uint8_t, ir::ValueId> constants;
  for (size_t at = 0; at < ends.size(); ++at) {
    ir::ValueId& zero = constants.try_emplace(zeros[at], ir::no_value).first->second;
    if (zero == ir::no_value) zero = graph.add_constant("", Tensor::of<uint8_t>(DType::u8, {}, std::vector{zeros[at]}));
    if (graph.node(ends[at]).inputs.size() > 2) graph.set_input(ends[at], 2, zero);
    else graph.add_input(ends[at], zero);
    graph.node(ends[at]).attributes.erase("output_dtype");
  }
  graph.value(stored).dtype = DType::u8;
  return true;
}

}  // namespace

bool unsigned_bytes(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return make_unsigned(graph, id); });
}

}  // namespace tenon::passes
