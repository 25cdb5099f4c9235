// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

std::vector<int64_t> three(const ir::Node& node, const char* name, int64_t otherwise, size_t count = 3) {
  return node.integers(name, std::vector<int64_t>(count, otherwise));
}

/// Weights [O, C, D, H, W] as [O, D * C, H, W].
Tensor frames_as_channels(const Tensor& weights) {
  const Dims& d = weights.dims();
  const int64_t out = d[0], channels = d[1], depth = d[2];
  Tensor result(weights.dtype(), {out, depth * channels, d[3], d[4]});
  const int64_t plane = d[3] * d[4] * static_cast<int64_t>(size_of(weights.dtype()));
  const auto* from = weights.data<std::byte>();
  auto* to = result.data<std::byte>();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < depth; ++k)
        std::copy_n(from + ((o * channels + c) * depth + k) * plane, plane,
                    to + ((o * depth + k) * channels + c) * plane);
  return result;
}

/// The taps of frame k of weights [O, C, D, H, W] as [O, C, H, W].
Tensor taps_of_frame(const Tensor& weights, int64_t k) {
  const Dims& d = weights.dims();
  const int64_t depth = d[2], plane = d[3] * d[4] * static_cast<int64_t>(size_of(weights.dtype()));
  Tensor result(weights.dtype(), {d[0], d[1], d[3], d[4]});
  for (int64_t row = 0; row < d[0] * d[1]; ++row)
    std::copy_n(weights.data<std::byte>() + (row * depth + k) * plane, plane, result.data<std::byte>() + row * plane);
  return result;
}

/// Weights of f32, or the bytes that a DequantizeLinear with scales for each output, or one, makes them of; what
/// another one makes, as numbers.
std::optional<Tensor> weights_of(const ir::Graph& graph, ir::ValueId id) {
  const ir::Node* read = made_by(graph, id, "DequantizeLinear");
  const Tensor* scales = read ? graph.constant(read->inputs[1]) : nullptr;
  const Tensor* bytes = read ? graph.constant(read->inputs[0]) : nullptr;
  const int64_t axis = read ? read->integer("axis", 1) : 0;
  if (bytes && scales && !read->integer("block_size", 0) && size_of(bytes->dtype()) == 1 && bytes->dims().rank() == 5 &&
      (scales->elements() == 1 || axis == 0 || axis == -5))
    return *bytes;
  const std::optional<Tensor> numbers = numbers_of(graph, id);
  return numbers && numbers->dtype() == DType::f32 ? numbers : std::nullopt;
}

/// A convolution over three axes of known sizes, and what makes those over two in its place.
struct Conv3d {
  ir::Graph& graph;
  ir::Node node;
  std::string name;
  Tensor weights;
  ir::Dim batch;
  std::vector<int64_t> x, y;  // sizes: channels, frames, height, width
  std::vector<int64_t> strides, dilations, pads;

  ir::ValueId numbers(std::vector<int64_t> values) const { return constant(graph, name + ".sizes", values); }
  ir::ValueId apply(const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) const {
    return graph.apply(op, std::move(inputs), std::move(attributes), node.origins, name);
  }

  /// [N, C, D, H, W] to [N, D, C, H, W], padded in D: by frames of zeros, between which what makes the others may write
  /// them.
  ir::ValueId padded() const {
    const ir::ValueId value = apply("Transpose", {node.inputs[0]}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}});
    if (!pads[0] && !pads[3]) return value;
    if (!batch.is_constant())
      return apply("Pad", {value, numbers({0, pads[0], 0, 0, 0, 0, pads[3], 0, 0, 0})}, {{"mode", "constant"}});
    const auto zeros = [&](int64_t count) {
      const Dims dims{batch.value(), count, x[0], x[2], x[3]};
      return constant(graph, name + ".zeros", dims, std::vector<float>(static_cast<size_t>(dims.elements()), 0.f));
    };
    const ir::ValueId first = pads[0] ? zeros(pads[0]) : ir::no_value;
    std::vector<ir::ValueId> around;
    if (pads[0]) around.push_back(first);
    around.push_back(value);
    if (pads[3]) around.push_back(pads[3] == pads[0] ? first : zeros(pads[3]));
    return apply("Concat", around, {{"axis", int64_t{1}}});
  }
  /// What tap k sees of the padded frames.
  ir::ValueId seen(ir::ValueId frames, int64_t k) const {
    if (weights.dims()[2] == 1 && strides[0] == 1 && y[1] == x[1] + pads[0] + pads[3]) return frames;
    const int64_t begin = k * dilations[0], end = begin + (y[1] - 1) * strides[0] + 1;
    return apply("Slice", {frames, numbers({begin}), numbers({end}), numbers({1}), numbers({strides[0]})});
  }
  /// Weights in another form, as numbers.
  ir::ValueId constant_of(const Tensor& taps) const {
    const ir::ValueId given = node.inputs[1], made = graph.add_constant(graph.value(given).name, taps);
    const ir::Node* read = made_by(graph, given, "DequantizeLinear");
    if (taps.dtype() == DType::f32 || !read) return made;
    std::vector<ir::ValueId> inputs = read->inputs;
    inputs[0] = made;
    const std::vector<std::string> origins = read->origins;
    return graph.apply("DequantizeLinear", inputs, {{"axis", int64_t{0}}}, origins, graph.value(given).name);
  }
  /// A convolution of frames as images.
  ir::ValueId convolved(ir::ValueId frames, const Tensor& taps, bool biased) const {
    const int64_t group = node.integer("group", 1);
    std::vector<ir::ValueId> inputs = {apply("Reshape", {frames, numbers({-1, taps.dims()[1] * group, x[2], x[3]})}),
                                       constant_of(taps)};
    if (biased && node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
    return apply("Conv", inputs,
                 {{"kernel_shape", std::vector<int64_t>{taps.dims()[2], taps.dims()[3]}},
                  {"strides", std::vector<int64_t>{strides[1], strides[2]}},
                  {"dilations", std::vector<int64_t>{dilations[1], dilations[2]}},
                  {"pads", std::vector<int64_t>{pads[1], pads[2], pads[4], pads[5]}},
                  {"group", group}});
  }

  /// The frames that one output frame sees become channels, and the output frames the batch of a convolution over
  /// height and width.
  ir::ValueId of_all_frames() const {
    const ir::ValueId frames = padded();
    std::vector<ir::ValueId> all;
    for (int64_t k = 0; k < weights.dims()[2]; ++k) all.push_back(seen(frames, k));
    return convolved(all.size() == 1 ? all[0] : apply("Concat", all, {{"axis", int64_t{2}}}),
                     frames_as_channels(weights), true);
  }
  /// Channels of a group would lie apart there: a convolution for each frame of the window, and their sum.
  ir::ValueId of_each_frame() const {
    const ir::ValueId frames = padded();
    ir::ValueId sum = ir::no_value;
    for (int64_t k = 0; k < weights.dims()[2]; ++k) {
      const ir::ValueId one = convolved(seen(frames, k), taps_of_frame(weights, k), k == 0);
      sum = k == 0 ? one : apply("Add", {one, sum});
    }
    return sum;
  }
  /// Windows of one pixel over frames are windows over two axes, the second of which is all pixels.
  ir::ValueId of_columns() const {
    const int64_t pixels = x[2] * x[3];
    const Dims& d = weights.dims();
    const ir::ValueId result = apply("Conv",
                                     with_bias({apply("Reshape", {node.inputs[0], numbers({-1, x[0], x[1], pixels})}),
                                                constant_of(weights.reshaped({d[0], d[1], d[2], 1}))}),
                                     {{"kernel_shape", std::vector<int64_t>{d[2], 1}},
                                      {"strides", std::vector<int64_t>{strides[0], 1}},
                                      {"dilations", std::vector<int64_t>{dilations[0], 1}},
                                      {"pads", std::vector<int64_t>{pads[0], 0, pads[3], 0}},
                                      {"group", node.integer("group", 1)}});
    return apply("Reshape", {result, numbers({-1, y[0], y[1], y[2], y[3]})});
  }
  std::vector<ir::ValueId> with_bias(std::vector<ir::ValueId> inputs) const {
    if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
    return inputs;
  }
  bool is_of_columns() const {
    const auto all = [](const std::vector<int64_t>& list, std::initializer_list<size_t> places, int64_t number) {
      return std::all_of(places.begin(), places.end(), [&](size_t at) { return list[at] == number; });
    };
    return weights.dims()[3] == 1 && weights.dims()[4] == 1 && all(strides, {1, 2}, 1) && all(pads, {1, 2, 4, 5}, 0);
  }
};

bool lower_conv3d_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Conv" || node.inputs.size() > 3 || node.text("auto_pad", "NOTSET") != "NOTSET") return false;
  const ir::Shape *x = shape_of(graph, node.inputs[0]), *y = shape_of(graph, node.outputs[0]);
  if (!x || !y || x->size() != 5 || y->size() != 5) return false;
  const std::optional<Tensor> weights = weights_of(graph, node.inputs[1]);
  if (!weights) return false;
  Conv3d conv{graph,
              node,
              graph.value(node.outputs[0]).name,
              *weights,
              (*x)[0],
              {},
              {},
              three(node, "strides", 1),
              three(node, "dilations", 1),
              three(node, "pads", 0, 6)};
  for (size_t axis = 1; axis < 5; ++axis) {
    if (!(*x)[axis].is_constant() || !(*y)[axis].is_constant()) return false;
    conv.x.push_back((*x)[axis].value()), conv.y.push_back((*y)[axis].value());
  }
  const auto& pads = conv.pads;
  if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; })) return false;
  const bool grouped = node.integer("group", 1) != 1;
  if (grouped && conv.is_of_columns()) {
    replace(graph, id, conv.of_columns());
    return true;
  }
  const ir::ValueId images = grouped ? conv.of_each_frame() : conv.of_all_frames();
  const ir::ValueId frames =
      conv.apply("Reshape", {images, conv.numbers({-1, conv.y[1], conv.y[0], conv.y[2], conv.y[3]})});
  replace(graph, id, conv.apply("Transpose", {frames}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}}));
  return true;
}

}  // namespace

bool lower_conv3d(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return lower_conv3d_at(graph, id); });
}

}  // namespace tenon::passes
