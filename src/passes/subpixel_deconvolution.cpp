// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// One axis of a transposed convolution as `stride` convolutions that share their window: result stride * q + r is the
/// sum over d of spread[r + begin - stride * (first + step * d)] * x[q + first + step * d], where there is such a
/// weight; `spread` are the weights with zeros between them where they are dilated.
struct Axis {
  int64_t stride, dilation, begin, kernel, in, out;
  int64_t first = 0, window = 0;  // of x that all of them see
  int64_t steps() const { return (out + stride - 1) / stride; }
  int64_t step() const { return stride == 1 ? dilation : 1; }
  int64_t spread() const { return (kernel - 1) * dilation + 1; }
  int64_t pad_end() const { return steps() - 1 + first + (window - 1) * step() + 1 - in; }
  /// The weight that a phase multiplies with pixel `at` of its window; below 0 for none.
  int64_t tap(int64_t phase, int64_t at) const {
    const int64_t place = phase + begin - stride * (first + step() * at);
    return place >= 0 && place < spread() && place % dilation == 0 ? place / dilation : -1;
  }
};

constexpr int64_t any_size = 1 << 16;

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// False where the convolution would have to leave out pixels at an edge, or would multiply with zeros above all.
bool set_window(Axis& axis) {
  if (axis.stride > 1 && axis.spread() > 2 * axis.kernel) return false;
  int64_t last = floor_div(axis.begin, axis.stride);
  axis.first = floor_div(axis.begin - axis.spread() + axis.stride, axis.stride);
  for (int64_t phase = 0; phase < axis.stride; ++phase) {
    last = std::max(last, floor_div(phase + axis.begin, axis.stride));
    axis.first = std::min(axis.first, -floor_div(axis.spread() - 1 - phase - axis.begin, axis.stride));
  }
  axis.window = (last - axis.first) / axis.step() + 1;
  return axis.first <= 0 && axis.window >= 1 && axis.pad_end() >= 0;
}

/// Weights and bias of the convolution whose channels are, group by group, all phases of all results.
struct Taps {
  Tensor weights, bias;
};
Taps taps_of(const Tensor& weights, const Tensor* given_bias, const Axis& rows, const Axis& columns, int64_t groups) {
  const int64_t channels = weights.dims()[0] / groups, results = weights.dims()[1];
  const int64_t phases = rows.stride * columns.stride;
  Tensor taps(DType::f32, {groups * phases * results, channels, rows.window, columns.window}),
      bias(DType::f32, {groups * phases * results});
  float* tap = taps.data<float>();
  for (int64_t row = 0; row < bias.elements(); ++row) {
    const int64_t group = row / (phases * results), phase = row / results % phases, m = row % results;
    bias.data<float>()[row] = given_bias ? given_bias->data<float>()[group * results + m] : 0.f;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t h = 0; h < rows.window; ++h)
        for (int64_t w = 0; w < columns.window; ++w, ++tap) {
          const int64_t kh = rows.tap(phase / columns.stride, h), kw = columns.tap(phase % columns.stride, w);
          const int64_t of = ((group * channels + c) * results + m) * rows.kernel + kh;
          *tap = kh < 0 || kw < 0 ? 0.f : weights.data<float>()[of * columns.kernel + kw];
        }
  }
  return {taps, bias};
}

/// Axes behind the batch: steps of rows and columns, groups, phases of rows and columns, results. As the convolution
/// leaves them they are `apart`, as they are in the result `woven`; groups or results that are one are left out.
class Weave {
 public:
  using Order = std::array<size_t, 6>;
  static constexpr Order apart{0, 1, 2, 3, 4, 5}, woven{0, 3, 1, 4, 2, 5};
  Weave(const Axis& rows, const Axis& columns, int64_t groups, int64_t results)
      : sizes_{rows.steps(), columns.steps(), groups, rows.stride, columns.stride, results} {}
  std::vector<int64_t> sizes(const Order& order) const {
    std::vector<int64_t> sizes;
    for (size_t axis : order)
      if (is_kept(axis)) sizes.push_back(sizes_[axis]);
    return sizes;
  }
  Perm perm(const Order& from, const Order& to) const {
    Perm perm{0};
    for (size_t axis : to)
      if (is_kept(axis))
        perm.push_back(1 + std::count_if(from.begin(), std::find(from.begin(), from.end(), axis),
                                         [&](size_t before) { return is_kept(before); }));
    return perm;
  }

 private:
  bool is_kept(size_t axis) const { return axis == 2 ? sizes_[2] > 1 : axis != 5 || sizes_[5] > 1 || sizes_[2] == 1; }
  std::array<int64_t, 6> sizes_;
};

/// Whether the rows and columns of NHWC are known.
bool has_sizes(const ir::Shape& shape) { return shape[1].is_constant() && shape[2].is_constant(); }

/// The rows and columns of a transposed convolution in NHWC with weights in f32, of one group where sizes are not
/// known; nullopt for others.
std::optional<std::array<Axis, 2>> axes_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "ConvTranspose" || node.text("layout", "") != "NHWC") return std::nullopt;
  const Tensor *weights = graph.constant(node.inputs[1]), *bias = nullptr;
  const bool biased = node.inputs.size() > 2 && node.inputs[2] != ir::no_value;
  if (biased) bias = graph.constant(node.inputs[2]);
  const bool is_added = node.inputs.size() > 3 && node.inputs[3] != ir::no_value;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!weights || weights->dtype() != DType::f32 || weights->dims().rank() != 4 || !from || !to || from->size() != 4 ||
      (biased && (!bias || bias->dtype() != DType::f32)))
    return std::nullopt;
  const auto strides = node.integers("strides", {1, 1}), dilations = node.integers("dilations", {1, 1});
  auto pads = node.integers("pads", {0, 0, 0, 0});
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "VALID") pads = {0, 0, 0, 0};
  if ((automatic != "NOTSET" && automatic != "VALID") || !node.integers("output_shape").empty()) return std::nullopt;
  std::array<Axis, 2> axes;
  const bool known = has_sizes(*from) && has_sizes(*to);
  const bool dilated = dilations != std::vector<int64_t>{1, 1};
  if ((node.integer("group", 1) != 1 || dilated) && !known) return std::nullopt;
  for (size_t at = 0; at < 2; ++at) {
    const ir::Dim &in = (*from)[at + 1], &out = (*to)[at + 1];
    // Of sizes that are not known: one for all, where results are as many times as large as the stride.
    if (!known && (!(out == in * strides[at]) || strides[0] != strides[1])) return std::nullopt;
    axes[at] = {strides[at],
                dilations[at],
                pads[at],
                weights->dims()[at + 2],
                known ? in.value() : any_size,
                known ? out.value() : any_size * strides[at]};
    if (axes[at].out < 1 || !set_window(axes[at])) return std::nullopt;
    if (is_added && axes[at].out % axes[at].stride) return std::nullopt;
  }
  return axes;
}

/// Where sizes are not known the results of all phases are pixels of blocks; `deep`: the shape of the convolution.
ir::ValueId of_free_sizes(ir::Graph& graph, const ir::Node& node, std::vector<ir::ValueId> inputs,
                          const ir::Attributes& attributes, int64_t block, const ir::Shape& deep) {
  const std::string name = graph.value(node.outputs[0]).name;
  const DType type = graph.value(node.outputs[0]).dtype;
  const ir::Shape whole = *shape_of(graph, node.outputs[0]);
  const auto apply = [&](const char* op, const std::vector<ir::ValueId>& operands, const ir::Attributes& with,
                         const ir::Shape& shape, const char* suffix) {
    const ir::ValueId value = graph.apply(op, operands, with, node.origins, name + suffix);
    graph.value(value).dtype = type, graph.value(value).shape = shape;
    return value;
  };
  ir::Attributes blocks{{"blocksize", block}, {"layout", std::string("NHWC")}};
  if (node.inputs.size() > 3 && node.inputs[3] != ir::no_value)
    inputs.push_back(apply("SpaceToDepth", {node.inputs[3]}, blocks, deep, ".residual"));
  const ir::ValueId product = apply("Conv", inputs, attributes, deep, ".phases");
  blocks["mode"] = std::string("DCR");
  return apply("DepthToSpace", {product}, blocks, whole, ".whole");
}

bool gather(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const auto axes = axes_of(graph, node);
  if (!axes) return false;
  const bool biased = node.inputs.size() > 2 && node.inputs[2] != ir::no_value;
  const bool is_added = node.inputs.size() > 3 && node.inputs[3] != ir::no_value;
  // Copies: values move when others are added.
  const Tensor weights = *graph.constant(node.inputs[1]);
  const ir::Shape to = *shape_of(graph, node.outputs[0]);
  const int64_t groups = node.integer("group", 1), results = weights.dims()[1];
  const auto& [rows, columns] = *axes;
  const int64_t channels = groups * rows.stride * columns.stride * results;
  const Taps made = taps_of(weights, biased ? graph.constant(node.inputs[2]) : nullptr, rows, columns, groups);
  const std::string name = graph.value(node.outputs[0]).name;
  const DType type = graph.value(node.outputs[0]).dtype;
  const ir::Dim batch = to[0];
  const auto known = [&](ir::ValueId value, const ir::Shape& shape) {
    graph.value(value).dtype = type, graph.value(value).shape = shape;
    return value;
  };
  ir::Attributes attributes{
      {"layout", std::string("NHWC")},
      {"pads", std::vector<int64_t>{-rows.first, -columns.first, rows.pad_end(), columns.pad_end()}}};
  if (groups > 1) attributes["group"] = groups;
  if (rows.step() > 1 || columns.step() > 1)
    attributes["dilations"] = std::vector<int64_t>{rows.step(), columns.step()};
  for (const char* word : {"activation", "alpha", "beta", "residual"})
    if (const auto found = node.attributes.find(word); found != node.attributes.end()) attributes.insert(*found);
  const auto reshaped = [&](ir::ValueId value, const std::vector<int64_t>& sizes, const char* suffix) {
    ir::Shape shape{batch};
    std::vector<int64_t> target{-1};
    for (int64_t size : sizes) shape.push_back(ir::Dim(size)), target.push_back(size);
    return known(graph.apply("Reshape", {value, constant(graph, name + suffix + ".sizes", target)}, {}, node.origins,
                             name + suffix),
                 shape);
  };
  const Weave weave(rows, columns, groups, results);
  std::vector<ir::ValueId> inputs{node.inputs[0], graph.add_constant(name + ".weights", made.weights),
                                  graph.add_constant(name + ".bias", made.bias)};
  const ir::Shape from = *shape_of(graph, node.inputs[0]);
  if (!has_sizes(from) || !has_sizes(to)) {
    const ir::Shape deep{batch, from[1], from[2], ir::Dim(channels)};
    replace(graph, id, of_free_sizes(graph, node, std::move(inputs), attributes, rows.stride, deep));
    return true;
  }
  if (is_added) {  // what is added, in the order of the phases
    const ir::ValueId blocks = reshaped(node.inputs[3], weave.sizes(Weave::woven), ".residual.split");
    const Perm turn = weave.perm(Weave::woven, Weave::apart);
    const ir::ValueId turned = known(graph.apply("Transpose", {blocks}, {{"perm", turn}}, {}, name + ".residual"),
                                     permuted(*shape_of(graph, blocks), turn));
    inputs.push_back(reshaped(turned, {rows.steps(), columns.steps(), channels}, ".residual.phases"));
  }
  const ir::ValueId product = known(graph.apply("Conv", inputs, attributes, node.origins, name + ".phases"),
                                    {batch, ir::Dim(rows.steps()), ir::Dim(columns.steps()), ir::Dim(channels)});
  const ir::ValueId split = reshaped(product, weave.sizes(Weave::apart), ".split");
  const Perm turn = weave.perm(Weave::apart, Weave::woven);
  const ir::ValueId woven = known(graph.apply("Transpose", {split}, {{"perm", turn}}, node.origins, name + ".woven"),
                                  permuted(*shape_of(graph, split), turn));
  ir::ValueId result =
      reshaped(woven, {rows.steps() * rows.stride, columns.steps() * columns.stride, groups * results}, ".whole");
  if (rows.steps() * rows.stride != rows.out || columns.steps() * columns.stride != columns.out)
    result = known(
        graph.apply("Slice",
                    {result, constant(graph, name + ".begin", {0, 0}),
                     constant(graph, name + ".end", {rows.out, columns.out}), constant(graph, name + ".axes", {1, 2})},
                    {}, node.origins, name),
        to);
  replace(graph, id, result);
  return true;
}

}  // namespace

bool subpixel_deconvolution(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return gather(graph, id); });
}

}  // namespace tenon::passes
