// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A slice along one axis, by positive steps.
struct Cut {
  ir::ValueId whole;
  int64_t axis, begin, frames, stride;
};

std::optional<Cut> cut_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* node = graph.producer(value);
  if (!node || node->op != "Slice" || node->inputs.size() < 4) return std::nullopt;
  const auto begins = integers(graph, node->inputs[1]), axes = integers(graph, node->inputs[3]);
  const bool steps = node->inputs.size() > 4 && node->inputs[4] != ir::no_value;
  const auto strides = steps ? integers(graph, node->inputs[4]) : std::optional(std::vector<int64_t>{1});
  const auto from = sizes_of(graph, node->inputs[0]), to = sizes_of(graph, value);
  if (!begins || !axes || !strides || !from || !to || begins->size() != 1 || axes->size() != 1 ||
      strides->size() != 1 || (*strides)[0] < 1)
    return std::nullopt;
  const auto rank = static_cast<int64_t>(from->size());
  const int64_t axis = (*axes)[0] < 0 ? (*axes)[0] + rank : (*axes)[0];
  const int64_t size = (*from)[static_cast<size_t>(axis)];
  return Cut{node->inputs[0], axis, (*begins)[0] < 0 ? (*begins)[0] + size : (*begins)[0],
             (*to)[static_cast<size_t>(axis)], (*strides)[0]};
}

/// Slices that begin a step apart, joined along another axis, are one copy: its lines are written whole.
bool join_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Concat" || node.inputs.size() < 2) return false;
  const auto sizes = sizes_of(graph, node.outputs[0]);
  const auto first = cut_of(graph, node.inputs[0]), second = cut_of(graph, node.inputs[1]);
  if (!sizes || !first || !second || first->begin != 0 || second->begin < 1 || first->frames < 1) return false;
  const int64_t along = node.integer("axis", 0), rank = static_cast<int64_t>(sizes->size());
  if ((along < 0 ? along + rank : along) == first->axis) return false;
  for (size_t at = 0; at < node.inputs.size(); ++at) {
    const auto cut = cut_of(graph, node.inputs[at]);
    if (!cut || cut->whole != first->whole || cut->axis != first->axis || cut->frames != first->frames ||
        cut->stride != first->stride || cut->begin != static_cast<int64_t>(at) * second->begin)
      return false;
  }
  replace(graph, id,
          graph.apply("tenon:Frames", {first->whole},
                      {{"axis", first->axis},
                       {"along", along < 0 ? along + rank : along},
                       {"count", static_cast<int64_t>(node.inputs.size())},
                       {"step", second->begin},
                       {"stride", first->stride},
                       {"frames", first->frames}},
                      node.origins, graph.value(node.outputs[0]).name));
  return true;
}

}  // namespace

bool join_frames(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return join_at(graph, id); });
}

}  // namespace tenon::passes
