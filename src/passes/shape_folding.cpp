// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

std::optional<Tensor> known(const ir::Value& value) {
  if (!value.content || !value.shape || !ir::is_constant(*value.shape) || value.is_constant()) return std::nullopt;
  Dims dims;
  for (const ir::Dim& dim : *value.shape) dims.push_back(dim.value());
  std::vector<int64_t> numbers;
  for (const ir::Dim& item : *value.content) {
    if (!item.is_constant()) return std::nullopt;
    numbers.push_back(item.value());
  }
  if (static_cast<int64_t>(numbers.size()) != dims.elements()) return std::nullopt;
  if (value.dtype == DType::i64) return Tensor::of<int64_t>(DType::i64, dims, numbers);
  if (value.dtype != DType::i32) return std::nullopt;
  return Tensor::of<int32_t>(DType::i32, dims, std::vector<int32_t>(numbers.begin(), numbers.end()));
}

/// A target of Reshape with one size that is a symbol becomes a constant with -1 there.
bool fix_target(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (node.op != "Reshape" || graph.value(node.inputs[1]).is_constant()) return false;
  const auto &content = graph.value(node.inputs[1]).content;
  const ir::Shape* from = shape_of(graph, node.inputs[0]);
  if (!content || !from) return false;
  for (const ir::Dim& item : *content)
    if (item.is_constant() && item.value() <= 0) return false;
  const auto target = reshape_target(*from, *content);
  if (!target) return false;
  const ir::ValueId value = constant(graph, graph.value(node.inputs[1]).name, *target);
  graph.node(id).attributes.erase("allowzero");
  graph.set_input(id, 1, value);
  return true;
}

}  // namespace

bool fold_shape(ir::Graph& graph, ir::NodeId id) {
  bool changed = fix_target(graph, id);
  const std::vector<ir::ValueId> outputs = graph.node(id).outputs;
  for (ir::ValueId output : outputs) {
    if (output == ir::no_value) continue;
    const auto tensor = known(graph.value(output));
    if (!tensor || (graph.value(output).users.empty() && !graph.is_output(output))) continue;
    graph.replace_uses(output, graph.add_constant(graph.value(output).name, *tensor));
    changed = true;
  }
  return changed;
}

bool shape_folding(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return fold_shape(graph, id); });
}

}  // namespace tenon::passes
