// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "ir/graph.h"

namespace tenon::passes {

constexpr int64_t frames_axis = 1, volume_axes = 5;  // of [batch, frames, height, width, channels]

/// Frames of a volume of channels last: `frames` of them from `begin` on, `stride` apart.
struct FrameSlice {
  ir::ValueId volume;
  int64_t begin, stride, frames;
};

/// What a Slice along the frames takes, of a volume whose frames are that axis; nullopt where the node is none of known
/// sizes.
std::optional<FrameSlice> frame_slice(const ir::Graph& graph, const ir::Node& node, int64_t axis = frames_axis);

/// A volume between frames of padding, as a Concat joins them.
struct PaddedFrames {
  ir::NodeId concat;
  ir::ValueId volume;
  int64_t before, behind;
};

/// What nodes of a group alone read, where it is a volume that frames of padding were joined to along an axis;
/// `is_padding` says of a constant whether it is such.
std::optional<PaddedFrames> padded_frames(const ir::Graph& graph, ir::ValueId value,
                                          const std::vector<ir::NodeId>& group, const std::set<ir::NodeId>& taken,
                                          const std::function<bool(const Tensor&)>& is_padding,
                                          int64_t axis = frames_axis);
/// Padding of floats.
bool are_zeros(const Tensor& frames);

}  // namespace tenon::passes
