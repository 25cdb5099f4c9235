// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <set>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Whether it gives the same elements in another shape or order.
bool only_moves(const ir::Node& node) {
  static const std::set<std::string> ops{"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"};
  return ops.count(node.op.str()) > 0;
}

/// Whether a QuantizeLinear or DequantizeLinear has one scale, and one zero point that is given.
bool is_one_grid(const ir::Graph& graph, const ir::Node& node) {
  if (!is_one(graph, node.inputs[1], DType::f32) || node.inputs.size() < 3 || node.inputs[2] == ir::no_value)
    return false;
  const Tensor* zero = graph.constant(node.inputs[2]);
  return zero && zero->elements() == 1 && size_of(zero->dtype()) == 1;
}

/// The product whose result a value is, moved by nodes that nobody else reads.
bool comes_from_product(const ir::Graph& graph, ir::ValueId value, ir::NodeId reader) {
  for (const ir::Node* made = graph.producer(value); made && graph.only_user(value) == reader;
       made = graph.producer(value)) {
    if (ops::has_trait(made->op, ops::Trait::product)) return true;
    if (!only_moves(*made)) return false;
    reader = graph.value(value).producer, value = made->inputs[0];
  }
  return false;
}

/// What is moved behind a product is quantised before it moves.
bool raise_quantise(ir::Graph& graph, ir::NodeId id) {
  const ir::Node end = graph.node(id);
  if (end.op != "QuantizeLinear" || !is_one_grid(graph, end) || !comes_from_product(graph, end.inputs[0], id))
    return false;
  const ir::NodeId mover = graph.value(end.inputs[0]).producer;
  const ir::Node move = graph.node(mover);
  if (!only_moves(move)) return false;
  std::vector<ir::ValueId> inputs = move.inputs;
  const DType byte = graph.value(end.outputs[0]).dtype;
  inputs[0] = graph.apply("QuantizeLinear", {move.inputs[0], end.inputs[1], end.inputs[2]}, {}, end.origins,
                          graph.value(move.inputs[0]).name);
  graph.value(inputs[0]).dtype = byte, graph.value(inputs[0]).shape = graph.value(move.inputs[0]).shape;
  const ir::ValueId moved =
      graph.apply(move.op.str().c_str(), inputs, move.attributes, move.origins, graph.value(end.outputs[0]).name);
  replace(graph, id, moved);
  graph.remove(mover);  // which would be another user of what it moved
  return true;
}

/// The DequantizeLinear that a value is moved from; nullptr where there is none.
const ir::Node* read_from(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* made = graph.producer(value);
  while (made && only_moves(*made)) made = graph.producer(made->inputs[0]);
  return made && made->op == "DequantizeLinear" && is_one_grid(graph, *made) ? made : nullptr;
}

bool is_nothing(const Tensor* tensor) {
  if (!tensor || tensor->dtype() != DType::f32) return false;
  const std::span<const float> values = tensor->values<float>();
  return std::all_of(values.begin(), values.end(), [](float one) { return one == 0; });
}

/// Zeros between parts that are read from bytes are read from bytes, too.
bool store_zeros(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Concat") return false;
  const ir::Node* read = nullptr;
  bool any = false;
  for (const ir::ValueId input : node.inputs) {
    if (graph.value(input).is_constant()) {
      if (!is_nothing(graph.constant(input))) return false;
      any = true;
    } else if (!(read = read_from(graph, input))) {
      return false;
    }
  }
  if (!any || !read) return false;
  const std::vector<ir::ValueId> grid{read->inputs[1], read->inputs[2]};
  const std::vector<std::string> origins = read->origins;
  const Tensor zero = *graph.constant(grid[1]);
  for (size_t at = 0; at < node.inputs.size(); ++at) {
    if (!graph.value(node.inputs[at]).is_constant()) continue;
    const ir::Value given = graph.value(node.inputs[at]);
    Tensor bytes(zero.dtype(), given.constant.dims());
    std::memset(bytes.data<std::byte>(), std::to_integer<int>(*zero.data<std::byte>()), bytes.bytes());
    const ir::ValueId stored = graph.add_constant(given.name + ".bytes", bytes);
    const ir::ValueId real = graph.apply("DequantizeLinear", {stored, grid[0], grid[1]}, {}, origins, given.name);
    graph.value(real).dtype = DType::f32, graph.value(real).shape = given.shape;
    graph.set_input(id, at, real);
  }
  return true;
}

}  // namespace

bool quantised_frames(ir::Graph& graph) {
  bool changed = each_node(graph, [&](ir::NodeId id) { return store_zeros(graph, id); });
  while (each_node(graph, [&](ir::NodeId id) { return raise_quantise(graph, id); })) changed = true;
  return changed;
}

}  // namespace tenon::passes
