// SPDX-License-Identifier: Apache-2.0
#include "passes/groups.h"

#include <utility>

namespace tenon::passes {

std::vector<Group> groups_of(const ir::Graph& graph, std::span<const GroupPattern> patterns) {
  std::vector<Group> groups;
  std::set<ir::NodeId> taken;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    for (const GroupPattern group_at : patterns)
      if (std::optional<Group> group = group_at(graph, id, taken)) {
        taken.insert(group->nodes.begin(), group->nodes.end());
        groups.push_back(std::move(*group));
      }
  return groups;
}

const std::string& result_of(const ir::Graph& graph, const Group& group) {
  return graph.value(group.outputs.back()).name;
}

ir::Graph with_groups(ir::Graph graph, const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    std::vector<std::string> origins;
    for (const ir::NodeId id : group.nodes) {
      const std::vector<std::string>& own = graph.node(id).origins;
      origins.insert(origins.end(), own.begin(), own.end());
      graph.remove(id);
    }
    graph.add_node(group.op, group.inputs, group.outputs, group.attributes, std::move(origins));
  }
  graph.tidy();
  return graph;
}

}  // namespace tenon::passes
