// SPDX-License-Identifier: Apache-2.0
#include "passes/frame_slices.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace tenon::passes {

std::optional<FrameSlice> frame_slice(const ir::Graph& graph, const ir::Node& node, int64_t axis) {
  if (node.op != "Slice" || node.inputs.size() < 4) return std::nullopt;
  const auto begins = integers(graph, node.inputs[1]), axes = integers(graph, node.inputs[3]);
  const auto strides = node.inputs.size() > 4 && node.inputs[4] != ir::no_value ? integers(graph, node.inputs[4])
                                                                                : std::vector<int64_t>{1};
  const ir::Shape* shape = shape_of(graph, node.outputs[0]);
  if (!begins || !axes || !strides || !shape || shape->size() != volume_axes || *axes != std::vector{axis} ||
      begins->size() != 1 || begins->front() < 0 || strides->size() != 1 || strides->front() < 1 ||
      !(*shape)[static_cast<size_t>(axis)].is_constant())
    return std::nullopt;
  return FrameSlice{node.inputs[0], begins->front(), strides->front(), (*shape)[static_cast<size_t>(axis)].value()};
}

std::optional<JoinedSlices> joined_slices(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken,
                                          int64_t channels_axis, int64_t axis) {
  const ir::Node& concat = graph.node(id);
  if (concat.op != "Concat" || concat.inputs.size() < 2 || concat.integer("axis", 0) != channels_axis)
    return std::nullopt;
  JoinedSlices found{{}, ir::no_value, 0, 0, 0};
  for (const ir::ValueId input : concat.inputs) {
    const ir::NodeId maker = graph.value(input).producer;
    if (maker == ir::no_node || taken.count(maker)) return std::nullopt;
    const auto slice = frame_slice(graph, graph.node(maker), axis);
    const auto at = static_cast<int64_t>(found.nodes.size());
    if (!slice || graph.only_user(input) != id) return std::nullopt;
    if (at == 0) found.volume = slice->volume, found.frames = slice->frames, found.stride = slice->stride;
    if (at == 1) found.step = slice->begin;
    if (slice->volume != found.volume || slice->frames != found.frames || slice->stride != found.stride ||
        slice->begin != at * found.step || (at > 0 && found.step < 1))
      return std::nullopt;
    found.nodes.push_back(maker);
  }
  return found;
}

ir::ValueId frames_of(ir::Graph& graph, const ir::Node& group, ir::ValueId volume, int64_t channels_axis, int64_t axis,
                      ir::ValueId padding) {
  if (const int64_t before = group.integer("before", 0), behind = group.integer("behind", 0); before || behind) {
    std::vector<int64_t> around(2 * volume_axes, 0);
    around[static_cast<size_t>(axis)] = before, around[static_cast<size_t>(volume_axes + axis)] = behind;
    std::vector<ir::ValueId> operands{volume, constant(graph, "pads", around)};
    if (padding != ir::no_value) operands.push_back(padding);
    volume = graph.apply("Pad", operands, {}, group.origins);
  }
  return graph.apply("tenon:Frames", {volume},
                     {{"axis", axis},
                      {"along", channels_axis},
                      {"count", group.integer("count", 1)},
                      {"step", group.integer("step", 1)},
                      {"stride", group.integer("stride", 1)},
                      {"frames", group.integer("frames", 1)}},
                     group.origins);
}

std::optional<PaddedFrames> padded_frames(const ir::Graph& graph, ir::ValueId value,
                                          const std::vector<ir::NodeId>& group, const std::set<ir::NodeId>& taken,
                                          const std::function<bool(const Tensor&)>& is_padding, int64_t axis) {
  const ir::NodeId maker = graph.value(value).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.is_output(value)) return std::nullopt;
  const ir::Node& concat = graph.node(maker);
  if (concat.op != "Concat" || concat.integer("axis", 0) != axis) return std::nullopt;
  for (const ir::NodeId user : graph.value(value).users)
    if (std::find(group.begin(), group.end(), user) == group.end()) return std::nullopt;
  PaddedFrames padded{maker, ir::no_value, 0, 0};
  for (const ir::ValueId input : concat.inputs) {
    const Tensor* constant = graph.constant(input);
    const bool pads = constant && constant->dims().rank() == volume_axes && is_padding(*constant);
    const int64_t frames = pads ? constant->dims()[static_cast<size_t>(axis)] : 0;
    if (frames == 0 && padded.volume != ir::no_value) return std::nullopt;
    if (frames == 0) padded.volume = input;
    else (padded.volume == ir::no_value ? padded.before : padded.behind) += frames;
  }
  return padded.volume == ir::no_value ? std::nullopt : std::optional(padded);
}

bool are_zeros(const Tensor& frames) {
  if (frames.dtype() != DType::f32) return false;
  const auto* first = frames.data<float>();
  return std::all_of(first, first + frames.elements(), [](float x) { return x == 0; });
}

}  // namespace tenon::passes
