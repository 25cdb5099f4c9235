// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/inverted_bottleneck.h"
#include "passes/groups.h"

namespace tenon::passes::group_inverted_bottleneck {
namespace {

bool is_16_bit(DType type) { return type == DType::f16 || type == DType::bf16; }

/// A convolution of channels last that reads and writes one type of 16 bits.
bool is_16_bit_conv(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Conv" || node.text("layout", "") != "NHWC" || node.text("input_layout", "") == "NCHW") return false;
  const DType type = graph.value(node.inputs[0]).dtype;
  const Tensor* weights = graph.constant(node.inputs[1]);
  return weights && weights->dims().rank() == 4 && is_16_bit(type) && graph.value(node.outputs[0]).dtype == type;
}

bool is_pointwise(const ir::Graph& graph, const ir::Node& node) {
  if (!is_16_bit_conv(graph, node) || node.integer("group", 1) != 1) return false;
  const auto all = [&](const char* name, int64_t value) {
    const std::vector<int64_t> list = node.integers(name);
    return std::all_of(list.begin(), list.end(), [&](int64_t one) { return one == value; });
  };
  const Dims& dims = graph.constant(node.inputs[1])->dims();
  return dims[2] == 1 && dims[3] == 1 && all("strides", 1) && all("pads", 0);
}

bool is_depthwise(const ir::Graph& graph, const ir::Node& node) {
  if (!is_16_bit_conv(graph, node)) return false;
  const Dims& dims = graph.constant(node.inputs[1])->dims();
  return dims[1] == 1 && node.integer("group", 1) == dims[0] && dims[0] > 1;
}

bool adds(const ir::Node& node) { return !node.text("residual", "").empty(); }

int64_t channels_of(const ir::Graph& graph, const ir::Node& node) { return graph.constant(node.inputs[1])->dims()[0]; }

/// Who alone reads the result and makes few channels of it.
ir::NodeId projection_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::NodeId user = graph.only_user(graph.node(id).outputs[0]);
  if (user == ir::no_node || !is_pointwise(graph, graph.node(user))) return ir::no_node;
  const ir::Node& project = graph.node(user);
  const bool reads = project.inputs[0] == graph.node(id).outputs[0];
  return reads && channels_of(graph, project) <= ops::most_projected ? user : ir::no_node;
}

/// Who makes what it alone reads, of fewer channels.
ir::NodeId expansion_of(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::ValueId x = graph.node(id).inputs[0];
  const ir::NodeId maker = graph.value(x).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(x) != id) return ir::no_node;
  const ir::Node& expand = graph.node(maker);
  if (!is_pointwise(graph, expand) || adds(expand)) return ir::no_node;
  return channels_of(graph, expand) > graph.constant(expand.inputs[1])->dims()[1] ? maker : ir::no_node;
}

/// Around a depthwise convolution of channels last, in 16 bits: the pointwise one before it that adds channels, and the
/// one behind it. Either may be absent, not both.
std::optional<Group> inverted_bottleneck_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& depthwise = graph.node(id);
  if (!is_depthwise(graph, depthwise) || adds(depthwise)) return std::nullopt;
  ir::NodeId ids[] = {expansion_of(graph, id, taken), id, projection_of(graph, id)};
  // Of layers that widen one after the other the next one's window is better off with what comes behind it.
  if (ids[2] != ir::no_node && channels_of(graph, graph.node(ids[2])) >= channels_of(graph, depthwise))
    ids[0] = ir::no_node;
  if (ids[0] == ir::no_node && ids[2] == ir::no_node) return std::nullopt;
  Group group{{}, "tenon:InvertedBottleneck", std::vector<ir::ValueId>(ops::bottleneck_residual, ir::no_value), {}, {}};
  const ir::Node* parts[3] = {};
  for (size_t at = 0; at < 3; ++at) {
    if (ids[at] == ir::no_node) continue;
    group.nodes.push_back(ids[at]);
    parts[at] = &graph.node(ids[at]);
    const size_t weights = ops::bottleneck_parts[at].weights;
    group.inputs[weights] = parts[at]->inputs[1];
    if (parts[at]->inputs.size() > 2) group.inputs[weights + 1] = parts[at]->inputs[2];
  }
  group.outputs = graph.node(group.last()).outputs;
  group.inputs[0] = graph.node(group.nodes.front()).inputs[0];
  if (parts[2] && parts[2]->inputs.size() > 3) group.inputs.push_back(parts[2]->inputs[3]);
  group.attributes = ops::bottleneck_attributes(parts[0], parts[1], parts[2]);
  return group;
}

const GroupRegistrar registered("tenon:InvertedBottleneck", inverted_bottleneck_at, 3);

}  // namespace
}  // namespace tenon::passes::group_inverted_bottleneck
