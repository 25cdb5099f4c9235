// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Runs of neighbouring axes, the last one first. Axes of one element between them count as reduced.
std::vector<std::vector<int64_t>> runs_of(const ir::Shape& shape, const std::vector<size_t>& axes) {
  std::vector<std::vector<int64_t>> runs;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!reduced && (runs.empty() || !(shape[axis] == ir::Dim(1)))) {
      if (runs.empty() || !runs.back().empty()) runs.emplace_back();
      continue;
    }
    if (runs.empty()) runs.emplace_back();
    runs.back().insert(runs.back().begin(), static_cast<int64_t>(axis));
  }
  if (!runs.empty() && runs.back().empty()) runs.pop_back();
  return runs;
}

bool split_axes_of(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  // Ops that give the same for parts of the axes one after the other.
  if (node.op != "ReduceMean" && node.op != "ReduceSum" && node.op != "ReduceMax" && node.op != "ReduceMin")
    return false;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  const auto list = node.inputs.size() > 1 ? integers(graph, node.inputs[1]) : std::nullopt;
  if (!from || !to || !list || list->empty() || !is_float(graph.value(node.inputs[0]).dtype)) return false;
  std::vector<size_t> axes;
  for (const int64_t axis : *list)
    if (const auto at = axis_of(axis, from->size())) axes.push_back(*at);
    else return false;
  std::sort(axes.begin(), axes.end());
  if (axes.back() - axes.front() + 1 == axes.size()) return false;
  ir::Shape sizes = *from;
  for (const size_t axis : axes) sizes[axis] = ir::Dim(1);
  const bool same = *to == sizes;
  const auto target = reshape_target(sizes, *to);
  if (!target) return false;
  sizes = *from;
  const std::string name = graph.value(node.outputs[0]).name;
  const DType type = graph.value(node.inputs[0]).dtype;
  ir::Attributes attributes = node.attributes;
  attributes["keepdims"] = int64_t{1};
  ir::ValueId value = node.inputs[0];
  for (const std::vector<int64_t>& run : runs_of(sizes, axes)) {
    for (const int64_t axis : run) sizes[static_cast<size_t>(axis)] = ir::Dim(1);
    value = graph.apply(node.op, {value, constant(graph, name + ".axes", run)}, attributes, node.origins, name);
    graph.value(value).dtype = type, graph.value(value).shape = sizes;
  }
  if (!same) value = graph.apply("Reshape", {value, constant(graph, name + ".shape", *target)}, {}, node.origins, name);
  replace(graph, id, value);
  return true;
}

}  // namespace

bool split_reductions(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return split_axes_of(graph, id); });
}

}  // namespace tenon::passes
