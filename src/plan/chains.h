#pragma once
#include <optional>
#include <set>

#include "plan/plan.h"

/// Nodes one after the other that a GPU may run as one.
namespace tenon::plan {

/// Nodes one behind the other or side by side, and the node that may stand in their place: nobody else reads what lies
/// between its inputs and its outputs.
struct Chain {
  std::vector<ir::NodeId> nodes;
  ir::OpId op;
  std::vector<ir::ValueId> inputs, outputs;
  ir::Attributes attributes;
  ir::NodeId last() const { return nodes.back(); }
};
std::vector<Chain> chains_of(const ir::Graph& graph);
/// The name of the last that a chain gives, the same where it is one node.
const std::string& result_of(const ir::Graph& graph, const Chain& chain);
/// The graph with each chain as one node in the place of the last. Ids change.
ir::Graph with_chains(ir::Graph graph, const std::vector<Chain>& chains);
/// By the names of their results: what was measured of a graph's chains as one step, and apart.
std::map<std::string, Record> chain_records(const ir::Graph& graph, const Plan& plan, const cuda::Properties* device);
/// A graph with concrete sizes as the plan's GPU runs it: chains that were measured faster so are one node. `device` as
/// for device_record().
ir::Graph device_graph(ir::Graph graph, const Plan& plan, const cuda::Properties* device);

/// A pointwise convolution that widens, this depthwise one and a pointwise one, in 16 bits, without the first or the
/// last where that is not so; nullopt where neither is. `taken`: nodes of other chains.
std::optional<Chain> bottleneck_at(const ir::Graph& graph, ir::NodeId depthwise, const std::set<ir::NodeId>& taken);
/// A convolution of a picture of few channels, and this max pool of its result; nullopt where that is not so.
std::optional<Chain> pooled_convolution_at(const ir::Graph& graph, ir::NodeId pool, const std::set<ir::NodeId>& taken);

/// Max pools of several windows of what this one reads, which may be pools of one another; nullopt where this is not
/// the first of several.
std::optional<Chain> pool_pyramid_at(const ir::Graph& graph, ir::NodeId pool, const std::set<ir::NodeId>& taken);

}  // namespace tenon::plan
