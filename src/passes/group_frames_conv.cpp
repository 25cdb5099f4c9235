// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/group_op.h"
#include "ops/op.h"
#include "ops/parts.h"
#include "passes/frame_slices.h"
#include "passes/groups.h"
#include "passes/rewrite.h"

namespace tenon::passes::group_frames_conv {
namespace {

constexpr int64_t channels_axis = 4, most_frames = int64_t{1} << 28;
constexpr size_t zero_at = 5;  // the input's zero point, of bytes

/// tenon:FramesConv: a convolution whose channels are those of `count` frames, the first that output frame i sees lies
/// at i * stride, the others `step` behind each other; of bytes, `before` frames of the zero point lie before those of
/// the volume and `behind` behind them. Inputs: the volume, then those of Conv; the output is its own. The attributes
/// of Conv stand behind "conv.", `sizes` are those of an image that it sees.
std::vector<ir::ValueId> members(ir::Graph& graph, const ir::Node& group, const std::vector<ir::ValueId>& inputs) {
  const ir::ValueId zero = inputs.size() > zero_at ? inputs[zero_at] : ir::no_value;
  const ir::ValueId frames = frames_of(graph, group, inputs[0], channels_axis, frames_axis, zero);
  std::vector<int64_t> sizes{-1};
  const std::vector<int64_t> image = group.integers("sizes");
  sizes.insert(sizes.end(), image.begin(), image.end());
  std::vector<ir::ValueId> operands{
      graph.apply("Reshape", {frames, constant(graph, "sizes", sizes)}, {}, group.origins)};
  operands.insert(operands.end(), inputs.begin() + 1, inputs.end());
  const char* conv = group.op == "tenon:Int8FramesConv" ? "tenon:Int8Conv" : "Conv";
  return {graph.apply(conv, operands, ops::part_of(group, conv, "conv.").attributes, group.origins)};
}

/// Takes the volume that frames of the zero point were joined to, where each image sees a frame of it.
void leave_padding_out(const ir::Graph& graph, Group& group, const std::set<ir::NodeId>& taken) {
  const Tensor* zero = group.inputs.size() > zero_at ? graph.constant(group.inputs[zero_at]) : nullptr;
  if (!zero || zero->dtype() != DType::u8) return;
  const auto padded = padded_frames(graph, group.inputs[0], group.nodes, taken, [&](const Tensor& frames) {
    const auto* first = frames.data<uint8_t>();
    return frames.dtype() == DType::u8 &&
           std::all_of(first, first + frames.elements(), [&](uint8_t x) { return x == *zero->data<uint8_t>(); });
  });
  const ir::Shape* shape = padded ? shape_of(graph, padded->volume) : nullptr;
  if (!shape || shape->size() != volume_axes || !(*shape)[frames_axis].is_constant()) return;
  const auto number = [&](const char* name) { return std::get<int64_t>(group.attributes.at(name)); };
  const int64_t end = padded->before + (*shape)[frames_axis].value();
  for (int64_t image = 0; image < number("frames"); ++image) {
    bool sees = false;
    for (int64_t k = 0; k < number("count") && !sees; ++k) {
      const int64_t frame = image * number("stride") + k * number("step");
      sees = frame >= padded->before && frame < end;
    }
    if (!sees) return;
  }
  group.nodes.insert(group.nodes.begin(), padded->concat);
  group.inputs[0] = padded->volume;
  group.attributes["before"] = padded->before, group.attributes["behind"] = padded->behind;
}

/// A convolution of frames that are copied beside each other for it alone.
std::optional<Group> frames_conv_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& conv = graph.node(id);
  const bool bytes = conv.op == "tenon:Int8Conv";
  if (taken.count(id) || (!bytes && conv.op != "Conv") || conv.text("layout", "") != "NHWC" ||
      conv.has("input_layout") || (bytes && conv.has("slopes")) || conv.integer("group", 1) != 1 ||
      (bytes ? graph.value(conv.inputs[0]).dtype != DType::u8 : graph.value(conv.outputs[0]).dtype != DType::f32))
    return std::nullopt;
  const ir::NodeId reshape = graph.value(conv.inputs[0]).producer;
  if (reshape == ir::no_node || taken.count(reshape) || graph.only_user(conv.inputs[0]) != id ||
      graph.node(reshape).op != "Reshape")
    return std::nullopt;
  const ir::ValueId joined = graph.node(reshape).inputs[0];
  const ir::NodeId concat = graph.value(joined).producer;
  const ir::Shape *from = shape_of(graph, joined), *to = shape_of(graph, conv.inputs[0]);
  if (concat == ir::no_node || taken.count(concat) || graph.only_user(joined) != reshape || !from || !to ||
      from->size() != 5 || to->size() != 4 || !ir::is_constant({to->begin() + 1, to->end()}) ||
      !std::equal(to->begin() + 1, to->end(), from->begin() + 2))
    return std::nullopt;
  auto frames = joined_slices(graph, concat, taken, channels_axis);
  if (!frames) return std::nullopt;
  const auto count = static_cast<int64_t>(frames->nodes.size());
  std::vector<int64_t> sizes;
  for (size_t axis = 1; axis < to->size(); ++axis) sizes.push_back((*to)[axis].value());
  Group group{
      std::move(frames->nodes), bytes ? "tenon:Int8FramesConv" : "tenon:FramesConv", conv.inputs, conv.outputs, {}};
  group.nodes.insert(group.nodes.end(), {concat, reshape, id});
  group.inputs[0] = frames->volume;
  ops::add_part(group.attributes, conv, "conv.");
  group.attributes["frames"] = frames->frames, group.attributes["count"] = count;
  group.attributes["step"] = frames->step, group.attributes["stride"] = frames->stride;
  group.attributes["sizes"] = sizes;
  if (bytes) leave_padding_out(graph, group, taken);
  return group;
}

ops::AttributeDefs attributes_of(const char* conv) {
  return {ops::attr::part("conv.", conv),
          ops::attr::integer("frames").at_least(1).required().internal(),
          ops::attr::integer("count").at_least(1).required().internal(),
          ops::attr::integer("step").at_least(1).required().internal(),
          ops::attr::integer("stride").at_least(1).required().internal(),
          ops::attr::integers("sizes").internal()};
}

ops::AttributeDefs attributes_of_bytes() {
  ops::AttributeDefs all = attributes_of("tenon:Int8Conv");
  for (const char* name : {"before", "behind"})
    all.push_back(ops::attr::integer(name).between(0, most_frames).internal());
  return all;
}

const ops::Registrar op(ops::group_op<members>("tenon:FramesConv", 2, 4, 1, attributes_of("Conv"),
                                               ops::Trait::product | ops::Trait::convolution |
                                                   ops::Traits::weights_at({1})));
const ops::Registrar int8_op(ops::group_op<members>("tenon:Int8FramesConv", 2, 11, 1, attributes_of_bytes(),
                                                    ops::Trait::product | ops::Trait::convolution |
                                                        ops::Trait::quantised | ops::Traits::output_scale_at(7)));
const GroupRegistrar registered("tenon:FramesConv", frames_conv_at, 2);

}  // namespace
}  // namespace tenon::passes::group_frames_conv
