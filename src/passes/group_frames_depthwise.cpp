// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/group_op.h"
#include "ops/op.h"
#include "ops/parts.h"
#include "passes/frame_slices.h"
#include "passes/groups.h"
#include "passes/rewrite.h"

namespace tenon::passes::group_frames_depthwise {
namespace {

constexpr size_t bias_at = 2, residual_at = 3, taps_at = 4;        // inputs: those of Conv, then weights of more frames
constexpr int64_t most_frames = 64, most_size = int64_t{1} << 28;  // products of two do not overflow

/// The part with what ends the sum: an activation of the last frame alone.
ir::Attributes of_frame(ir::Attributes attributes, bool first, bool last) {
  if (!last)
    for (const char* name : {"activation", "alpha", "beta", "slopes"}) attributes.erase(name);
  if (!first) attributes["residual"] = std::string("before");
  return attributes;
}

/// tenon:FramesDepthwise: the sum of depthwise convolutions, the k-th of which sees `frames` frames of a volume from
/// k * step on, `stride` apart, with `before` frames of zeros before and `behind` behind them. Inputs: the volume, the
/// first one's weights, bias and residual, the others' weights; the output is the last one's. The attributes of Conv
/// stand behind "conv.", `sizes` are those of an image whose channels are those of all that an output frame sees.
std::vector<ir::ValueId> members(ir::Graph& graph, const ir::Node& group, const std::vector<ir::ValueId>& inputs) {
  const int64_t frames = group.integer("frames", 1), count = group.integer("count", 1), step = group.integer("step", 1),
                stride = group.integer("stride", 1);
  const ir::Attributes part = ops::part_of(group, "Conv", "conv.").attributes;
  std::vector<int64_t> sizes{-1};
  for (const int64_t size : group.integers("sizes")) sizes.push_back(size);
  if (sizes.size() == 4) sizes[3] /= count;
  const auto list = [&](const std::vector<int64_t>& values) { return constant(graph, "frames", values); };
  ir::ValueId volume = inputs[0];
  if (const int64_t before = group.integer("before", 0), behind = group.integer("behind", 0); before || behind)
    volume = graph.apply("Pad", {volume, list({0, before, 0, 0, 0, 0, behind, 0, 0, 0})}, {}, group.origins);
  ir::ValueId sum = inputs.size() > residual_at ? inputs[residual_at] : ir::no_value;
  for (int64_t k = 0; k < count; ++k) {
    const ir::ValueId seen = graph.apply(
        "Slice",
        {volume, list({k * step}), list({k * step + (frames - 1) * stride + 1}), list({frames_axis}), list({stride})},
        {}, group.origins);
    const size_t weights = k == 0 ? 1 : taps_at + static_cast<size_t>(k) - 1;
    std::vector<ir::ValueId> operands{graph.apply("Reshape", {seen, list(sizes)}, {}, group.origins),
                                      weights < inputs.size() ? inputs[weights] : ir::no_value,
                                      k == 0 && inputs.size() > bias_at ? inputs[bias_at] : ir::no_value};
    if (sum != ir::no_value) operands.push_back(sum);
    sum = graph.apply("Conv", operands, of_frame(part, sum == ir::no_value || k == 0, k + 1 == count), group.origins);
  }
  return {sum};
}

/// A depthwise convolution of frames of a volume as images.
struct Part {
  ir::NodeId slice, reshape, conv;
  FrameSlice seen;
};

std::optional<Part> part_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& conv = graph.node(id);
  if (taken.count(id) || conv.op != "Conv" || conv.text("layout", "") != "NHWC" || conv.has("input_layout") ||
      graph.value(conv.outputs[0]).dtype != DType::f32)
    return std::nullopt;
  const Tensor* weights = graph.constant(conv.inputs[1]);
  if (!weights || weights->dtype() != DType::f32 || weights->dims().rank() != 4 || weights->dims()[1] != 1 ||
      weights->dims()[0] != conv.integer("group", 1) || weights->dims()[0] == 1)
    return std::nullopt;
  const ir::NodeId reshape = graph.value(conv.inputs[0]).producer;
  if (reshape == ir::no_node || taken.count(reshape) || graph.only_user(conv.inputs[0]) != id ||
      graph.node(reshape).op != "Reshape")
    return std::nullopt;
  const ir::ValueId frames = graph.node(reshape).inputs[0];
  const ir::NodeId slice = graph.value(frames).producer;
  const ir::Shape *from = shape_of(graph, frames), *to = shape_of(graph, conv.inputs[0]);
  if (slice == ir::no_node || taken.count(slice) || graph.only_user(frames) != reshape || !from || !to ||
      from->size() != volume_axes || to->size() != 4 || !ir::is_constant({to->begin() + 1, to->end()}) ||
      !std::equal(to->begin() + 1, to->end(), from->begin() + 2) || (*to)[3].value() != weights->dims()[0])
    return std::nullopt;
  const auto seen = frame_slice(graph, graph.node(slice));
  if (!seen) return std::nullopt;
  return Part{slice, reshape, id, *seen};
}

/// Whether the windows of two convolutions lie alike.
bool are_alike(const ir::Graph& graph, const ir::Node& a, const ir::Node& b) {
  for (const char* name : {"strides", "dilations", "pads"})
    if (a.integers(name) != b.integers(name)) return false;
  return a.text("auto_pad", "") == b.text("auto_pad", "") &&
         graph.constant(a.inputs[1])->dims() == graph.constant(b.inputs[1])->dims();
}

bool has(const ir::Node& node, size_t input) {
  return node.inputs.size() > input && node.inputs[input] != ir::no_value;
}

/// The convolution whose result another one adds to its sums and nobody else reads.
std::optional<Part> part_before(const ir::Graph& graph, const Part& part, const std::set<ir::NodeId>& taken) {
  const ir::Node& conv = graph.node(part.conv);
  if (conv.text("residual", "") != "before" || has(conv, bias_at)) return std::nullopt;
  const ir::ValueId sum = conv.inputs[residual_at];
  const ir::NodeId maker = graph.value(sum).producer;
  if (maker == ir::no_node || graph.only_user(sum) != part.conv) return std::nullopt;
  const auto before = part_at(graph, maker, taken);
  if (!before || before->seen.volume != part.seen.volume || before->seen.frames != part.seen.frames ||
      before->seen.stride != part.seen.stride || graph.node(maker).has("activation") ||
      !are_alike(graph, graph.node(maker), conv))
    return std::nullopt;
  return before;
}

/// The parts of a sum, the first one first, that begins with frame 0 of the volume in equal steps; one behind the other
/// where there is no such sum.
std::vector<Part> parts_of(const ir::Graph& graph, ir::NodeId last, const std::set<ir::NodeId>& taken) {
  std::vector<Part> parts;
  for (auto part = part_at(graph, last, taken); part; part = part_before(graph, *part, taken)) parts.push_back(*part);
  std::reverse(parts.begin(), parts.end());
  const auto count = static_cast<int64_t>(parts.size());
  if (count < 2 || count > most_frames) return {};
  const int64_t step = parts[1].seen.begin;
  for (int64_t k = 0; k < count; ++k)
    if (step < 1 || parts[static_cast<size_t>(k)].seen.begin != k * step) return {};
  return parts;
}

std::optional<Group> frames_depthwise_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const std::vector<Part> parts = parts_of(graph, id, taken);
  if (parts.empty()) return std::nullopt;
  const ir::Node &first = graph.node(parts.front().conv), &last = graph.node(id);
  if (first.has("residual")) return std::nullopt;
  // Not a part of a longer sum.
  if (const auto user = graph.only_user(last.outputs[0]); user != ir::no_node && !last.has("activation")) {
    const auto next = part_at(graph, user, taken);
    if (next && part_before(graph, *next, taken)) return std::nullopt;
  }
  Group group{{}, "tenon:FramesDepthwise", {parts[0].seen.volume, first.inputs[1]}, last.outputs, {}};
  group.inputs.push_back(has(first, bias_at) ? first.inputs[bias_at] : ir::no_value);
  group.inputs.push_back(ir::no_value);
  for (size_t k = 0; k < parts.size(); ++k) {
    group.nodes.insert(group.nodes.end(), {parts[k].slice, parts[k].reshape, parts[k].conv});
    if (k > 0) group.inputs.push_back(graph.node(parts[k].conv).inputs[1]);
  }
  const auto count = static_cast<int64_t>(parts.size());
  std::vector<int64_t> sizes;
  const ir::Shape& image = *shape_of(graph, first.inputs[0]);
  for (size_t axis = 1; axis < image.size(); ++axis) sizes.push_back(image[axis].value());
  sizes.back() *= count;
  ops::add_part(group.attributes, last, "conv.");
  group.attributes.erase("conv.residual");
  group.attributes["frames"] = parts[0].seen.frames, group.attributes["count"] = count;
  group.attributes["step"] = parts[1].seen.begin, group.attributes["stride"] = parts[0].seen.stride;
  group.attributes["sizes"] = sizes;
  if (const auto padded = padded_frames(graph, group.inputs[0], group.nodes, taken, are_zeros)) {
    group.nodes.insert(group.nodes.begin(), padded->concat);
    group.inputs[0] = padded->volume;
    group.attributes["before"] = padded->before, group.attributes["behind"] = padded->behind;
  }
  return group;
}

const ops::Registrar op(ops::group_op<members>(
    "tenon:FramesDepthwise", 2, static_cast<int>(taps_at + most_frames), 1,
    {ops::attr::part("conv.", "Conv"), ops::attr::integer("frames").between(1, most_size).required().internal(),
     ops::attr::integer("count").between(2, most_frames).required().internal(),
     ops::attr::integer("step").between(1, most_size).required().internal(),
     ops::attr::integer("stride").between(1, most_size).required().internal(),
     ops::attr::integer("before").between(0, most_size).internal(),
     ops::attr::integer("behind").between(0, most_size).internal(), ops::attr::integers("sizes").internal()},
    ops::Trait::product | ops::Trait::convolution | ops::Traits::weights_at({1})));
const GroupRegistrar registered("tenon:FramesDepthwise", frames_depthwise_at, 2);

}  // namespace
}  // namespace tenon::passes::group_frames_depthwise
