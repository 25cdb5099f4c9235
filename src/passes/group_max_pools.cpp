// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/groups.h"

namespace tenon::passes::group_max_pools {
namespace {

constexpr size_t most_pools = 4;

/// The size of the square window of a max pool that keeps the size of what it reads; 0: it is none.
int64_t window_of(const ir::Node& node) {
  if (node.op != "MaxPool" || node.outputs.size() != 1 || node.text("layout", "") != "NHWC" ||
      node.text("auto_pad", "NOTSET") != "NOTSET")
    return 0;
  using List = std::vector<int64_t>;
  const List kernel = node.integers("kernel_shape");
  const int64_t size = kernel.empty() ? 0 : kernel[0], pad = size / 2;
  const bool keeps = size > 1 && size % 2 == 1 && kernel == List{size, size} &&
                     node.integers("strides", {1, 1}) == List{1, 1} &&
                     node.integers("dilations", {1, 1}) == List{1, 1} &&
                     node.integers("pads", {0, 0, 0, 0}) == List{pad, pad, pad, pad};
  return keeps ? size : 0;
}

struct Pool {
  int64_t window;  // of what the first of them reads
  ir::NodeId node;
};

/// All pools that read a value, or what a pool makes of it: a pool of a pool is one of a larger window.
void collect(const ir::Graph& graph, ir::ValueId x, int64_t window, std::vector<Pool>& pools) {
  for (const ir::NodeId user : graph.value(x).users)
    if (const int64_t own = window_of(graph.node(user))) {
      pools.push_back({window + own - 1, user});
      collect(graph, graph.node(user).outputs[0], window + own - 1, pools);
    }
}

/// Max pools of several windows of what this one reads, which may be pools of one another; this is the first of them.
std::optional<Group> max_pools_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  if (taken.count(id) || !window_of(graph.node(id))) return std::nullopt;
  const ir::ValueId x = graph.node(id).inputs[0];
  if (const ir::NodeId maker = graph.value(x).producer; maker != ir::no_node && window_of(graph.node(maker)))
    return std::nullopt;
  std::vector<Pool> pools;
  collect(graph, x, 1, pools);
  std::sort(pools.begin(), pools.end(), [](const Pool& a, const Pool& b) { return a.window < b.window; });
  const auto alike = [](const Pool& a, const Pool& b) { return a.window == b.window; };
  if (pools.size() < 2 || pools.size() > most_pools ||
      std::adjacent_find(pools.begin(), pools.end(), alike) != pools.end())
    return std::nullopt;
  Group group{{}, "tenon:MaxPools", {x}, {}, {}};
  std::vector<int64_t> windows;
  for (const Pool& pool : pools) {
    group.nodes.push_back(pool.node);
    group.outputs.push_back(graph.node(pool.node).outputs[0]);
    windows.push_back(pool.window);
  }
  group.attributes = {{"layout", std::string("NHWC")}, {"windows", windows}};
  return group;
}

const GroupRegistrar registered("tenon:MaxPools", max_pools_at, 1);

}  // namespace
}  // namespace tenon::passes::group_max_pools
