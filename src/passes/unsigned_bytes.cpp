// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <vector>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether a node has one scale, or one for each entry of an axis.
bool has_scales(const ir::Graph& graph, const ir::Node& node) {
  const Tensor* scales = graph.constant(node.inputs[1]);
  return scales && scales->dtype() == DType::f32 && scales->elements() > 0 && !node.integer("block_size", 0) &&
         (scales->elements() == 1 || scales->dims().rank() == 1);
}

/// The zero points of a quantiser or its reader as those of unsigned bytes: 128 higher where `bytes` are signed;
/// nullopt where they are no numbers of their type, one for each scale. Absent ones are 0.
std::optional<std::vector<uint8_t>> unsigned_zeros(const ir::Graph& graph, const ir::Node& node, DType bytes) {
  const int higher = bytes == DType::i8 ? 128 : 0;
  const auto count = static_cast<size_t>(graph.constant(node.inputs[1])->elements());
  if (node.inputs.size() < 3 || node.inputs[2] == ir::no_value) return std::vector(count, static_cast<uint8_t>(higher));
  const Tensor* given = graph.constant(node.inputs[2]);
  if (!given || given->dtype() != bytes || static_cast<size_t>(given->elements()) != count) return std::nullopt;
  std::vector<uint8_t> zeros(count);
  for (size_t at = 0; at < count; ++at)
    zeros[at] = static_cast<uint8_t>(higher ? given->data<int8_t>()[at] + higher : given->data<uint8_t>()[at]);
  return zeros;
}

/// Signed bytes that only quantisers see become unsigned ones, with zero points that are 128 higher. An absent zero
/// point becomes a number.
bool make_unsigned(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "QuantizeLinear" || !has_scales(graph, node)) return false;
  const ir::ValueId stored = node.outputs[0];
  const DType dtype = graph.value(stored).dtype;
  if ((dtype != DType::i8 && dtype != DType::u8) || graph.is_output(stored)) return false;
  std::vector<ir::NodeId> ends = graph.value(stored).users;
  for (ir::NodeId user : ends)
    if (graph.node(user).op != "DequantizeLinear" || !has_scales(graph, graph.node(user))) return false;
  ends.push_back(id);
  std::vector<std::vector<uint8_t>> zeros;
  bool absent = false;
  for (ir::NodeId end : ends) {
    const auto own = unsigned_zeros(graph, graph.node(end), dtype);
    if (!own) return false;
    zeros.push_back(*own);
    absent |= graph.node(end).inputs.size() < 3 || graph.node(end).inputs[2] == ir::no_value;
  }
  if (dtype == DType::u8 && !absent) return false;
  std::map<std::vector<uint8_t>, ir::ValueId> constants;
  for (size_t at = 0; at < ends.size(); ++at) {
    ir::ValueId& zero = constants.try_emplace(zeros[at], ir::no_value).first->second;
    if (zero == ir::no_value) {
      const auto count = static_cast<int64_t>(zeros[at].size());
      zero = graph.add_constant("", Tensor::of<uint8_t>(DType::u8, count == 1 ? Dims{} : Dims{count}, zeros[at]));
    }
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
