// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "plan/plan.h"

namespace tenon::plan {
namespace {

bool is_planned(const ir::Value& value) {
  return value.shape && ir::is_constant(*value.shape) && size_of(value.dtype) > 0;
}

/// Of each node, whether all that it reads and makes has concrete sizes, and all that it depends on, too.
std::vector<char> early_nodes(const ir::Graph& graph) {
  std::vector<char> early(graph.nodes.size(), 0);
  for (size_t at = 0; at < graph.nodes.size(); ++at) {
    const ir::Node& node = graph.nodes[at];
    const auto reads = [&](ir::ValueId id) {
      if (id == ir::no_value || graph.value(id).is_constant()) return true;
      const ir::NodeId producer = graph.value(id).producer;
      return is_planned(graph.value(id)) && (producer == ir::no_node || early[static_cast<size_t>(producer)]);
    };
    const auto makes = [&](ir::ValueId id) { return id == ir::no_value || is_planned(graph.value(id)); };
    early[at] = std::all_of(node.inputs.begin(), node.inputs.end(), reads) &&
                std::all_of(node.outputs.begin(), node.outputs.end(), makes);
  }
  return early;
}

}  // namespace

Parts parts_of(const ir::Graph& graph) {
  const std::vector<char> early = early_nodes(graph);
  Parts parts{graph, graph};
  parts.head.outputs.clear(), parts.head.output_names.clear();
  for (ir::ValueId id = 0; id < static_cast<ir::ValueId>(graph.values.size()); ++id) {
    const ir::Value& value = graph.value(id);
    if (value.producer == ir::no_node || !early[static_cast<size_t>(value.producer)]) continue;
    const auto is_late = [&](ir::NodeId user) { return !early[static_cast<size_t>(user)]; };
    if (!graph.is_output(id) && std::none_of(value.users.begin(), value.users.end(), is_late)) continue;
    parts.head.outputs.push_back(id), parts.head.output_names.push_back(value.name);
    parts.tail.inputs.push_back(id);
  }
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    (early[static_cast<size_t>(id)] ? parts.tail : parts.head).remove(id);
  parts.head.tidy(), parts.tail.tidy();
  return parts;
}

ir::Graph planned_part(ir::Graph graph) { return is_static(graph) ? std::move(graph) : parts_of(graph).head; }

}  // namespace tenon::plan
