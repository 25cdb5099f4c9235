// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// One axis of a transposed convolution as `stride` convolutions that share their window: result stride * q + r is the
/// sum over d of weight[r + begin - stride * (first + d)] * x[q + first + d], where there is such a weight.
struct Axis {
  int64_t stride, begin, kernel, in, out;
  int64_t first = 0, window = 0;  // of x that all of them see
  int64_t steps() const { return (out + stride - 1) / stride; }
  int64_t pad_end() const { return steps() - 1 + first + window - in; }
  int64_t tap(int64_t phase, int64_t at) const { return phase + begin - stride * (first + at); }
};

constexpr int64_t any_size = 1 << 16;

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// False where the convolution would have to leave out pixels at an edge.
bool set_window(Axis& axis) {
  int64_t last = floor_div(axis.begin, axis.stride);
  axis.first = floor_div(axis.begin - axis.kernel + axis.stride, axis.stride);
  for (int64_t phase = 0; phase < axis.stride; ++phase) {
    last = std::max(last, floor_div(phase + axis.begin, axis.stride));
    axis.first = std::min(axis.first, -floor_div(axis.kernel - 1 - phase - axis.begin, axis.stride));
  }
  axis.window = last - axis.first + 1;
  return axis.first <= 0 && axis.window >= 1 && axis.pad_end() >= 0;
}

/// Weights and bias of the convolution whose channels are all phases of all results or, where it is `depthwise`, of
/// each channel all phases.
struct Taps {
  Tensor weights, bias;
};
Taps taps_of(const Tensor& given, const Tensor* given_bias, const Axis& rows, const Axis& columns, bool depthwise) {
  const Tensor weights = depthwise ? given.reshaped({1, given.dims()[0], given.dims()[2], given.dims()[3]}) : given;
  const int64_t channels = weights.dims()[0], results = weights.dims()[1], phases = rows.stride * columns.stride;
  Tensor taps(DType::f32, {phases * results, channels, rows.window, columns.window}),
      bias(DType::f32, {phases * results});
  std::fill_n(taps.data<float>(), taps.elements(), 0.f);
  std::fill_n(bias.data<float>(), bias.elements(), 0.f);
  for (int64_t r = 0; r < rows.stride; ++r)
    for (int64_t s = 0; s < columns.stride; ++s)
      for (int64_t m = 0; m < results; ++m) {
        const int64_t phase = r * columns.stride + s, row = depthwise ? m * phases + phase : phase * results + m;
        if (given_bias) bias.data<float>()[row] = given_bias->data<float>()[m];
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t h = 0; h < rows.window; ++h)
            for (int64_t w = 0; w < columns.window; ++w) {
              const int64_t kh = rows.tap(r, h), kw = columns.tap(s, w);
              if (kh < 0 || kh >= rows.kernel || kw < 0 || kw >= columns.kernel) continue;
              taps.data<float>()[((row * channels + c) * rows.window + h) * columns.window + w] =
                  weights.data<float>()[((c * results + m) * rows.kernel + kh) * columns.kernel + kw];
            }
      }
  return {taps, bias};
}

/// Whether the rows and columns of NHWC are known.
bool has_sizes(const ir::Shape& shape) { return shape[1].is_constant() && shape[2].is_constant(); }

/// Whether each channel is a group of its own, with one result.
bool is_depthwise(const ir::Node& node, const Tensor& weights) {
  return weights.dims()[0] > 1 && node.integer("group", 1) == weights.dims()[0] && weights.dims()[1] == 1;
}

/// The rows and columns of a transposed convolution in NHWC with weights in f32 that is not dilated and has one group
/// or, of known sizes, one for each channel; nullopt for others.
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
  if ((automatic != "NOTSET" && automatic != "VALID") || !node.integers("output_shape").empty() ||
      dilations != std::vector<int64_t>{1, 1})
    return std::nullopt;
  std::array<Axis, 2> axes;
  const bool known = has_sizes(*from) && has_sizes(*to);
  if (node.integer("group", 1) != 1 && (!is_depthwise(node, *weights) || !known)) return std::nullopt;
  for (size_t at = 0; at < 2; ++at) {
    const ir::Dim &in = (*from)[at + 1], &out = (*to)[at + 1];
    // Of sizes that are not known: one for all, where results are as many times as large as the stride.
    if (!known && (!(out == in * strides[at]) || strides[0] != strides[1])) return std::nullopt;
    axes[at] = {strides[at], pads[at], weights->dims()[at + 2], known ? in.value() : any_size,
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
  const bool depthwise = is_depthwise(node, weights);
  const int64_t results = weights.dims()[depthwise ? 0 : 1];
  const auto& [rows, columns] = *axes;
  const int64_t phases = rows.stride * columns.stride;
  const Taps made = taps_of(weights, biased ? graph.constant(node.inputs[2]) : nullptr, rows, columns, depthwise);
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
  if (depthwise) attributes["group"] = results;
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
  const Perm perm{0, 1, 3, 2, 4, 5};
  std::vector<ir::ValueId> inputs{node.inputs[0], graph.add_constant(name + ".weights", made.weights),
                                  graph.add_constant(name + ".bias", made.bias)};
  const ir::Shape from = *shape_of(graph, node.inputs[0]);
  if (!has_sizes(from) || !has_sizes(to)) {
    const ir::Shape deep{batch, from[1], from[2], ir::Dim(phases * results)};
    replace(graph, id, of_free_sizes(graph, node, std::move(inputs), attributes, rows.stride, deep));
    return true;
  }
  if (is_added) {  // what is added, in the order of the phases
    const ir::ValueId blocks = reshaped(
        node.inputs[3], {rows.steps(), rows.stride, columns.steps(), columns.stride, results}, ".residual.split");
    const Perm apart = depthwise ? Perm{0, 1, 3, 5, 2, 4} : perm;
    const ir::ValueId turned = known(graph.apply("Transpose", {blocks}, {{"perm", apart}}, {}, name + ".residual"),
                                     permuted(*shape_of(graph, blocks), apart));
    inputs.push_back(reshaped(turned, {rows.steps(), columns.steps(), phases * results}, ".residual.phases"));
  }
  const ir::ValueId product =
      known(graph.apply("Conv", inputs, attributes, node.origins, name + ".phases"),
            {batch, ir::Dim(rows.steps()), ir::Dim(columns.steps()), ir::Dim(phases * results)});
  const ir::ValueId split =
      depthwise ? reshaped(product, {rows.steps(), columns.steps(), results, rows.stride, columns.stride}, ".split")
                : reshaped(product, {rows.steps(), columns.steps(), rows.stride, columns.stride, results}, ".split");
  const Perm weave = depthwise ? Perm{0, 1, 4, 2, 5, 3} : perm;
  const ir::ValueId woven = known(graph.apply("Transpose", {split}, {{"perm", weave}}, node.origins, name + ".woven"),
                                  permuted(*shape_of(graph, split), weave));
  ir::ValueId result =
      reshaped(woven, {rows.steps() * rows.stride, columns.steps() * columns.stride, results}, ".whole");
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
