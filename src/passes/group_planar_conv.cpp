// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/group_op.h"
#include "ops/op.h"
#include "ops/parts.h"
#include "passes/frame_slices.h"
#include "passes/groups.h"
#include "passes/rewrite.h"

namespace tenon::passes::group_planar_conv {
namespace {

// So few that what is copied takes as long as what is multiplied.
constexpr int64_t most_outputs = 64, most_inputs = 64, few_inputs = 4;
constexpr int64_t columns_axis = 3;
constexpr int64_t channels_axis = 1, planes_axis = 2;              // of a volume of planes; the latter are its frames
constexpr int64_t most_frames = 64, most_size = int64_t{1} << 28;  // products of two do not overflow

/// tenon:PlanarConv: a Transpose by `planes` of images whose rows lie side by side, and the convolution of channels
/// last that alone reads it. Inputs: the images, or one volume that they are, then those of the convolution behind its
/// first; its attributes stand behind "conv.", `sizes` are those of the images where a volume is given. Where `count`
/// is given, channels of image i are those of so many frames of the volume, the first one at i * stride, the others
/// `step` behind each other, with `before` frames of zeros before and `behind` behind them.
std::vector<ir::ValueId> members(ir::Graph& graph, const ir::Node& group, const std::vector<ir::ValueId>& inputs) {
  std::vector<ir::ValueId> operands = inputs;
  if (group.has("count")) operands[0] = frames_of(graph, group, inputs[0], channels_axis, planes_axis);
  if (group.has("sizes"))
    operands[0] =
        graph.apply("Reshape", {operands[0], constant(graph, "sizes", group.integers("sizes"))}, {}, group.origins);
  operands[0] = graph.apply("Transpose", {operands[0]}, {{"perm", group.integers("planes")}}, group.origins);
  return {graph.apply("Conv", operands, ops::part_of(group, "Conv", "conv.").attributes, group.origins)};
}

bool has_few_channels(const Dims& weights) {
  return weights.rank() == 4 && (weights[1] <= few_inputs || (weights[0] <= most_outputs && weights[1] <= most_inputs));
}

/// The Reshape of one volume to its planes that a node alone reads.
ir::NodeId volume_before(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::ValueId planes = graph.node(id).inputs[0];
  const ir::NodeId maker = graph.value(planes).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(planes) != id || graph.node(maker).op != "Reshape")
    return ir::no_node;
  const ir::Shape *from = shape_of(graph, graph.node(maker).inputs[0]), *to = shape_of(graph, planes);
  const bool fits = from && to && from->size() == 5 && to->size() == 4 && ir::is_constant(*from) &&
                    (*from)[0].value() == 1 && std::equal(to->begin(), to->end(), from->begin() + 1);
  return fits ? maker : ir::no_node;
}

/// Slices of one volume of planes that are joined as channels for a node alone; the last of the nodes joins them.
std::optional<JoinedSlices> frames_before(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::ValueId joined = graph.node(id).inputs[0];
  const ir::NodeId maker = graph.value(joined).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(joined) != id) return std::nullopt;
  auto found = joined_slices(graph, maker, taken, channels_axis, planes_axis);
  if (!found || static_cast<int64_t>(found->nodes.size()) > most_frames) return std::nullopt;
  found->nodes.push_back(maker);
  return found;
}

/// Takes what images of a volume see, side by side, from that volume.
void take_frames(const ir::Graph& graph, Group& group, const JoinedSlices& frames, const std::set<ir::NodeId>& taken) {
  group.inputs[0] = frames.volume;
  group.attributes["frames"] = frames.frames;
  group.attributes["count"] = static_cast<int64_t>(frames.nodes.size()) - 1;
  group.attributes["step"] = frames.step, group.attributes["stride"] = frames.stride;
  group.nodes.insert(group.nodes.begin(), frames.nodes.begin(), frames.nodes.end());
  const auto padded = padded_frames(graph, frames.volume, frames.nodes, taken, are_zeros, planes_axis);
  if (!padded) return;
  group.nodes.insert(group.nodes.begin(), padded->concat);
  group.inputs[0] = padded->volume;
  group.attributes["before"] = padded->before, group.attributes["behind"] = padded->behind;
}

std::optional<Group> planar_conv_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& conv = graph.node(id);
  if (taken.count(id) || conv.op != "Conv" || conv.text("layout", "") != "NHWC" || conv.has("input_layout") ||
      conv.integer("group", 1) != 1 || graph.value(conv.outputs[0]).dtype != DType::f32)
    return std::nullopt;
  const Tensor* weights = graph.constant(conv.inputs[1]);
  if (!weights || !has_few_channels(weights->dims())) return std::nullopt;
  const ir::NodeId maker = graph.value(conv.inputs[0]).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(conv.inputs[0]) != id) return std::nullopt;
  const ir::Node& transpose = graph.node(maker);
  const std::vector<int64_t> perm = transpose.integers("perm");
  if (transpose.op != "Transpose" || perm.size() != 4 || perm[2] != columns_axis) return std::nullopt;
  Group group{{maker, id}, "tenon:PlanarConv", conv.inputs, conv.outputs, {}};
  group.inputs[0] = transpose.inputs[0];
  ops::add_part(group.attributes, conv, "conv.");
  group.attributes["planes"] = perm;
  if (const ir::NodeId reshape = volume_before(graph, maker, taken); reshape != ir::no_node) {
    std::vector<int64_t> sizes;
    for (const ir::Dim& size : *shape_of(graph, transpose.inputs[0])) sizes.push_back(size.value());
    group.nodes.insert(group.nodes.begin(), reshape);
    group.inputs[0] = graph.node(reshape).inputs[0];
    group.attributes["sizes"] = sizes;
    if (const auto frames = frames_before(graph, reshape, taken); frames && perm == std::vector<int64_t>{1, 2, 3, 0})
      take_frames(graph, group, *frames, taken);
  }
  return group;
}

const ops::Registrar op(ops::group_op<members>(
    "tenon:PlanarConv", 2, 4, 1,
    {ops::attr::part("conv.", "Conv"), ops::attr::integers("planes").required().internal(),
     ops::attr::integers("sizes").internal(), ops::attr::integer("frames").between(1, most_size).internal(),
     ops::attr::integer("count").between(2, most_frames).internal(),
     ops::attr::integer("step").between(1, most_size).internal(),
     ops::attr::integer("stride").between(1, most_size).internal(),
     ops::attr::integer("before").between(0, most_size).internal(),
     ops::attr::integer("behind").between(0, most_size).internal()},
    ops::Trait::product | ops::Trait::convolution | ops::Traits::weights_at({1})));
const GroupRegistrar registered("tenon:PlanarConv", planar_conv_at, 2);

}  // namespace
}  // namespace tenon::passes::group_planar_conv
