// SPDX-License-Identifier: Apache-2.0
#include "passes/groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

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

namespace {

struct Registered {
  ir::OpId op;
  GroupPattern pattern;
  int priority;
};

std::vector<Registered>& registry() {
  static std::vector<Registered> list;
  return list;
}

/// The nodes of a group on its inputs and outputs; weights are inputs as well.
std::shared_ptr<const ir::Graph> members_of(const ir::Graph& graph, const Group& group) {
  auto members = std::make_shared<ir::Graph>();
  std::map<ir::ValueId, ir::ValueId> own;
  const auto value_of = [&](ir::ValueId id) {
    const ir::Value& value = graph.value(id);
    if (!own.count(id)) own[id] = members->add_value(value.name, value.dtype, value.shape);
    return own[id];
  };
  const auto mapped = [&](const std::vector<ir::ValueId>& values, bool absent) {
    std::vector<ir::ValueId> list;
    for (const ir::ValueId id : values)
      if (id != ir::no_value) list.push_back(value_of(id));
      else if (absent) list.push_back(id);
    return list;
  };
  members->inputs = mapped(group.inputs, false);
  for (const ir::NodeId id : group.nodes) {
    const ir::Node& node = graph.node(id);
    members->add_node(node.op, mapped(node.inputs, true), mapped(node.outputs, true), node.attributes, node.origins);
  }
  members->outputs = mapped(group.outputs, false);
  return members;
}

}  // namespace

GroupRegistrar::GroupRegistrar(const char* op, GroupPattern pattern, int priority) {
  registry().push_back({op, pattern, priority});
}

std::vector<GroupPattern> patterns_of(const std::function<bool(const ir::OpId&)>& has) {
  std::vector<Registered> list = registry();
  std::sort(list.begin(), list.end(), [](const Registered& a, const Registered& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.op < b.op;
  });
  std::vector<GroupPattern> patterns;
  for (const Registered& one : list)
    if (has(one.op)) patterns.push_back(one.pattern);
  return patterns;
}

const std::string& result_of(const ir::Graph& graph, const Group& group) {
  return graph.value(group.outputs.back()).name;
}

ir::Graph with_groups(ir::Graph graph, const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    std::shared_ptr<const ir::Graph> members = members_of(graph, group);
    std::vector<std::string> origins;
    for (const ir::NodeId id : group.nodes) {
      const std::vector<std::string>& own = graph.node(id).origins;
      origins.insert(origins.end(), own.begin(), own.end());
      graph.remove(id);
    }
    const ir::NodeId id = graph.add_node(group.op, group.inputs, group.outputs, group.attributes, std::move(origins));
    graph.node(id).members = std::move(members);
  }
  graph.tidy();
  return graph;
}

void take_apart(ir::Graph& graph, ir::NodeId id) {
  const ir::Node whole = graph.node(id);
  TENON_CHECK(whole.members, "a group without members: " + whole.label());
  const ir::Graph& members = *whole.members;
  std::map<ir::ValueId, ir::ValueId> outer;  // by the members' value
  const auto pair = [&](const std::vector<ir::ValueId>& own, const std::vector<ir::ValueId>& theirs) {
    size_t at = 0;
    for (const ir::ValueId value : theirs)
      if (value != ir::no_value) outer[own[at++]] = value;
  };
  pair(members.inputs, whole.inputs);
  pair(members.outputs, whole.outputs);
  graph.remove(id);
  const auto mapped = [&](std::vector<ir::ValueId> values) {
    for (ir::ValueId& value : values) {
      if (value == ir::no_value) continue;
      const ir::Value& own = members.value(value);
      if (!outer.count(value)) outer[value] = graph.add_value(own.name, own.dtype, own.shape);
      value = outer[value];
    }
    return values;
  };
  for (const ir::Node& node : members.nodes)
    graph.add_node(node.op, mapped(node.inputs), mapped(node.outputs), node.attributes, node.origins);
}

}  // namespace tenon::passes
