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

namespace {

int64_t frames_of_zeros(const ir::Graph& graph, ir::ValueId value, int64_t axis) {
  const Tensor* zeros = graph.constant(value);
  if (!zeros || zeros->dtype() != DType::f32 || zeros->dims().rank() != volume_axes) return 0;
  const auto* first = zeros->data<float>();
  const bool all = std::all_of(first, first + zeros->elements(), [](float x) { return x == 0; });
  return all ? zeros->dims()[static_cast<size_t>(axis)] : 0;
}

}  // namespace

std::optional<PaddedVolume> padded_volume(const ir::Graph& graph, ir::ValueId value,
                                          const std::vector<ir::NodeId>& readers, const std::set<ir::NodeId>& taken,
                                          int64_t axis) {
  const ir::NodeId maker = graph.value(value).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.is_output(value)) return std::nullopt;
  const ir::Node& concat = graph.node(maker);
  if (concat.op != "Concat" || concat.integer("axis", 0) != axis) return std::nullopt;
  for (const ir::NodeId user : graph.value(value).users)
    if (std::find(readers.begin(), readers.end(), user) == readers.end()) return std::nullopt;
  PaddedVolume padded{maker, ir::no_value, 0, 0};
  for (const ir::ValueId input : concat.inputs) {
    const int64_t zeros = frames_of_zeros(graph, input, axis);
    if (zeros == 0 && padded.volume != ir::no_value) return std::nullopt;
    if (zeros == 0) padded.volume = input;
    else (padded.volume == ir::no_value ? padded.before : padded.behind) += zeros;
  }
  return padded.volume == ir::no_value ? std::nullopt : std::optional(padded);
}

}  // namespace tenon::passes
