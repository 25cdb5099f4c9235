// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

/// Fusion groups: nodes that one kernel may run as a whole.
namespace tenon::passes {

/// Nodes one behind the other or side by side, and the node that may stand in their place: nobody else reads what lies
/// between its inputs and its outputs.
struct Group {
  std::vector<ir::NodeId> nodes;
  ir::OpId op;
  std::vector<ir::ValueId> inputs, outputs;
  ir::Attributes attributes;
  ir::NodeId last() const { return nodes.back(); }
};

/// The group that this node belongs to as its anchor; nullopt where there is none. `taken`: nodes of other groups.
using GroupPattern = std::optional<Group> (*)(const ir::Graph& graph, ir::NodeId anchor,
                                              const std::set<ir::NodeId>& taken);

std::vector<Group> groups_of(const ir::Graph& graph, std::span<const GroupPattern> patterns);
/// The name of the last value that a group gives, the same where it is one node.
const std::string& result_of(const ir::Graph& graph, const Group& group);
/// The graph with each group as one node in the place of the last, which keeps them as its members. Ids change.
ir::Graph with_groups(ir::Graph graph, const std::vector<Group>& groups);
/// Puts a group's members back in its place, with names and origins. Tidy the graph afterwards.
void take_apart(ir::Graph& graph, ir::NodeId group);

/// A pattern, once in its file, of groups that become nodes of this op, the internal one of several with a kernel.
/// Those of a higher priority are looked for first.
struct GroupRegistrar {
  GroupRegistrar(const char* op, GroupPattern pattern, int priority = 0);
};
/// The patterns of all ops that `has` is true of.
std::vector<GroupPattern> patterns_of(const std::function<bool(const ir::OpId&)>& has);

}  // namespace tenon::passes
