// SPDX-License-Identifier: Apache-2.0
#include "passes/frame_slices.h"

#include "passes/rewrite.h"

namespace tenon::passes {

std::optional<FrameSlice> frame_slice(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Slice" || node.inputs.size() < 4) return std::nullopt;
  const auto begins = integers(graph, node.inputs[1]), axes = integers(graph, node.inputs[3]);
  const auto strides = node.inputs.size() > 4 && node.inputs[4] != ir::no_value ? integers(graph, node.inputs[4])
                                                                                : std::vector<int64_t>{1};
  const ir::Shape* shape = shape_of(graph, node.outputs[0]);
  if (!begins || !axes || !strides || !shape || shape->size() != volume_axes || *axes != std::vector{frames_axis} ||
      begins->size() != 1 || begins->front() < 0 || strides->size() != 1 || strides->front() < 1 ||
      !(*shape)[frames_axis].is_constant())
    return std::nullopt;
  return FrameSlice{node.inputs[0], begins->front(), strides->front(), (*shape)[frames_axis].value()};
}

}  // namespace tenon::passes
