// SPDX-License-Identifier: Apache-2.0
#include "ops/inverted_bottleneck.h"
#include "passes/groups.h"

namespace tenon::passes::group_conv_pair {
namespace {

bool is_channels_last(const ir::Node& node) { return node.op == "Conv" && node.text("layout", "") == "NHWC"; }

bool is_pointwise(const ir::Graph& graph, const ir::Node& node) {
  if (!is_channels_last(node) || node.integer("group", 1) != 1 || !node.text("residual", "").empty()) return false;
  const Tensor* weights = graph.constant(node.inputs[1]);
  return weights && weights->dims().rank() == 4 && weights->dims()[2] == 1 && weights->dims()[3] == 1;
}

/// A convolution of f32 in groups, of channels last, and the pointwise one before it that it alone reads. They stand as
/// a pair.
std::optional<Group> conv_pair_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& second = graph.node(id);
  if (!is_channels_last(second) || second.integer("group", 1) <= 1 ||
      graph.value(second.outputs[0]).dtype != DType::f32)
    return std::nullopt;
  const ir::NodeId maker = graph.value(second.inputs[0]).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(second.inputs[0]) != id) return std::nullopt;
  const ir::Node& first = graph.node(maker);
  if (!is_pointwise(graph, first)) return std::nullopt;
  Group group{{maker, id},
              "tenon:ConvPair",
              std::vector<ir::ValueId>(ops::bottleneck_residual, ir::no_value),
              second.outputs,
              ops::bottleneck_attributes(&first, &second, nullptr)};
  group.inputs[0] = first.inputs[0];
  const ir::Node* parts[] = {&first, &second};
  for (size_t at = 0; at < 2; ++at) {
    const size_t weights = ops::bottleneck_parts[at].weights;
    group.inputs[weights] = parts[at]->inputs[1];
    if (parts[at]->inputs.size() > 2) group.inputs[weights + 1] = parts[at]->inputs[2];
  }
  if (second.inputs.size() > 3) group.inputs.push_back(second.inputs[3]);
  return group;
}

const GroupRegistrar registered("tenon:ConvPair", conv_pair_at);

}  // namespace
}  // namespace tenon::passes::group_conv_pair
