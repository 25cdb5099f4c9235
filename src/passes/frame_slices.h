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

/// Slices of one volume that a Concat joins, the k-th of which begins at k * step.
struct JoinedSlices {
  std::vector<ir::NodeId> nodes;
  ir::ValueId volume;
  int64_t frames, step, stride;
};

/// What a Concat along the channels joins, where it alone reads the slices.
std::optional<JoinedSlices> joined_slices(const ir::Graph& graph, ir::NodeId concat, const std::set<ir::NodeId>& taken,
                                          int64_t channels_axis, int64_t axis = frames_axis);
/// The same as tenon:Frames, as a group with such attributes has it: `count`, `step`, `stride` and `frames`, of the
/// volume between `before` and `behind` frames of `padding` (zeros where there is no value).
ir::ValueId frames_of(ir::Graph& graph, const ir::Node& group, ir::ValueId volume, int64_t channels_axis,
                      int64_t axis = frames_axis, ir::ValueId padding = ir::no_value);

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
