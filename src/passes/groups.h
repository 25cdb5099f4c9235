// SPDX-License-Identifier: Apache-2.0
#pragma once
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
/// The graph with each group as one node in the place of the last. Ids change.
ir::Graph with_groups(ir::Graph graph, const std::vector<Group>& groups);

/// Around a depthwise convolution of channels last, in 16 bits: the pointwise one before it that adds channels, and the
/// one behind it. Either may be absent, not both.
std::optional<Group> inverted_bottleneck_at(const ir::Graph& graph, ir::NodeId depthwise,
                                            const std::set<ir::NodeId>& taken);
/// A convolution of an image of few channels, and this max pool of its result.
std::optional<Group> conv_max_pool_at(const ir::Graph& graph, ir::NodeId pool, const std::set<ir::NodeId>& taken);
/// Max pools of several windows of what this one reads, which may be pools of one another; this is the first of them.
std::optional<Group> max_pools_at(const ir::Graph& graph, ir::NodeId pool, const std::set<ir::NodeId>& taken);

}  // namespace tenon::passes
