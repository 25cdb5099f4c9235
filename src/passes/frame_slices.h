// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/graph.h"

namespace tenon::passes {

constexpr int64_t frames_axis = 1, volume_axes = 5;  // of [batch, frames, height, width, channels]

/// Frames of a volume of channels last: `frames` of them from `begin` on, `stride` apart.
struct FrameSlice {
  ir::ValueId volume;
  int64_t begin, stride, frames;
};

/// What a Slice along the frames takes; nullopt where the node is none of known sizes.
std::optional<FrameSlice> frame_slice(const ir::Graph& graph, const ir::Node& node);

}  // namespace tenon::passes
