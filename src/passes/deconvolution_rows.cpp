// SPDX-License-Identifier: Apache-2.0
#include "passes/deconvolution_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/phase_axis.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

using Axis = ops::PhaseAxis;

/// What some phases of an axis see of x.
struct Window {
  int64_t first, taps, pad_end;
  Window(const Axis& axis, int64_t begin, int64_t end) : first(axis.first(begin)) {
    int64_t last = axis.last(begin);
    for (int64_t phase = begin; phase < end; ++phase)
      first = std::min(first, axis.first(phase)), last = std::max(last, axis.last(phase));
    taps = std::max<int64_t>(1, last - first + 1);
    pad_end = axis.steps() - 1 + first + taps - axis.in;
  }
  bool pads() const { return first <= 0 && pad_end >= 0; }
};

struct Axes {
  Axis rows, columns;
};

/// Height, width and channels, where they are known.
std::optional<std::array<int64_t, 3>> image_of(const ir::Graph& graph, ir::ValueId id) {
  const ir::Shape* shape = shape_of(graph, id);
  if (!shape || shape->size() != 4 || !ir::is_constant({shape->begin() + 1, shape->end()})) return std::nullopt;
  return std::array{(*shape)[1].value(), (*shape)[2].value(), (*shape)[3].value()};
}

/// Those of a transposed convolution in NHWC of known sizes that is neither grouped nor dilated; nullopt for others.
std::optional<Axes> axes_of(const ir::Graph& graph, const ir::Node& node, const Dims& weights) {
  const auto from = image_of(graph, node.inputs[0]), to = image_of(graph, node.outputs[0]);
  const auto strides = node.integers("strides", {1, 1}), dilations = node.integers("dilations", {1, 1});
  auto pads = node.integers("pads", {0, 0, 0, 0});
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "VALID") pads = {0, 0, 0, 0};
  if (node.text("layout", "") != "NHWC" || node.integer("group", 1) != 1 || weights.rank() != 4 || !from || !to ||
      (automatic != "NOTSET" && automatic != "VALID") || !node.integers("output_shape").empty() ||
      dilations != std::vector<int64_t>{1, 1})
    return std::nullopt;
  const auto axis = [&](size_t at) { return Axis{strides[at], pads[at], weights[at + 2], (*from)[at], (*to)[at]}; };
  const Axes axes{axis(0), axis(1)};
  bool fits = Window(axes.columns, 0, axes.columns.stride).pads();
  for (int64_t r = 0; r < axes.rows.stride; ++r) fits &= Window(axes.rows, r, r + 1).pads();
  return fits ? std::optional(axes) : std::nullopt;
}

/// Weights [C, M, kernel] as those of a convolution for phase r of the rows, whose channels are the phases of the
/// columns, each of all results; `nothing`, one or one for each result, where a phase has no tap.
Tensor row_weights(const Tensor& weights, const Axes& axes, int64_t r, const Tensor* nothing) {
  const int64_t channels = weights.dims()[0], results = weights.dims()[1], phases = axes.columns.stride;
  const Window down(axes.rows, r, r + 1), across(axes.columns, 0, phases);
  const size_t size = size_of(weights.dtype());
  Tensor made(weights.dtype(), {phases * results, channels, down.taps, across.taps});
  const auto* from = weights.data<std::byte>();
  auto* to = made.data<std::byte>();
  for (int64_t s = 0; s < phases; ++s)
    for (int64_t m = 0; m < results; ++m)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t h = 0; h < down.taps; ++h)
          for (int64_t w = 0; w < across.taps; ++w, to += size) {
            const int64_t row = axes.rows.tap(r, down.first + h), column = axes.columns.tap(s, across.first + w);
            if (row >= 0 && row < axes.rows.kernel && column >= 0 && column < axes.columns.kernel)
              std::memcpy(to,
                          from + (((c * results + m) * axes.rows.kernel + row) * axes.columns.kernel + column) *
                                     static_cast<int64_t>(size),
                          size);
            else if (!nothing) std::memset(to, 0, size);
            else std::memcpy(to, nothing->data<std::byte>() + (nothing->elements() == 1 ? 0 : m), size);
          }
  return made;
}

/// A list with one entry for each result, repeated for the phases of the columns; others as they are.
Tensor repeated(const Tensor& list, int64_t results, int64_t phases) {
  if (list.elements() != results || list.dims().rank() == 0) return list;
  Tensor made(list.dtype(), {phases * results});
  for (int64_t s = 0; s < phases; ++s)
    std::memcpy(made.data<std::byte>() + s * static_cast<int64_t>(list.bytes()), list.data<std::byte>(), list.bytes());
  return made;
}

/// A transposed convolution, taken apart.
struct Maker {
  ir::Graph& graph;
  const ir::Node node;
  const Axes axes;
  const std::string name = graph.value(node.outputs[0]).name;
  const DType type = graph.value(node.outputs[0]).dtype;
  const ir::Dim batch = (*shape_of(graph, node.outputs[0]))[0];
  const int64_t results = (*shape_of(graph, node.outputs[0]))[3].value();
  const int64_t deep = axes.columns.stride * results, height = axes.rows.steps(), width = axes.columns.steps();

  ir::ValueId known(ir::ValueId value, const ir::Shape& shape) {
    graph.value(value).dtype = type, graph.value(value).shape = shape;
    return value;
  }
  ir::ValueId apply(const char* op, const std::vector<ir::ValueId>& inputs, const ir::Attributes& with,
                    const ir::Shape& shape, const std::string& suffix) {
    return known(graph.apply(op, inputs, with, node.origins, name + suffix), shape);
  }
  ir::ValueId slice(ir::ValueId of, const std::vector<int64_t>& begin, const std::vector<int64_t>& end,
                    const std::vector<int64_t>& axis, const ir::Shape& shape, const std::string& suffix) {
    return apply("Slice", {of, constant(graph, "", begin), constant(graph, "", end), constant(graph, "", axis)}, {},
                 shape, suffix);
  }

  /// Weights of phase r, through a DequantizeLinear of their own where the node's come from one.
  ir::ValueId weights(int64_t r) {
    const std::string own = name + ".weights" + std::to_string(r);
    if (const Tensor* given = graph.constant(node.inputs[1]))
      return graph.add_constant(own, row_weights(*given, axes, r, nullptr));
    const ir::Node read = *made_by(graph, node.inputs[1], "DequantizeLinear");
    const bool has_zero = read.inputs.size() > 2 && read.inputs[2] != ir::no_value;
    const Tensor bytes = *graph.constant(read.inputs[0]), scales = *graph.constant(read.inputs[1]),
                 zeros = has_zero ? *graph.constant(read.inputs[2]) : Tensor();
    const Tensor made = row_weights(bytes, axes, r, has_zero ? &zeros : nullptr);
    std::vector<ir::ValueId> operands{graph.add_constant(own + ".bytes", made),
                                      graph.add_constant("", repeated(scales, results, axes.columns.stride))};
    if (has_zero) operands.push_back(graph.add_constant("", repeated(zeros, results, axes.columns.stride)));
    const ir::ValueId real = graph.apply("DequantizeLinear", operands, {{"axis", int64_t{0}}}, read.origins, own);
    graph.value(real).dtype = DType::f32;
    return real;
  }

  /// Results of phase r of the rows.
  ir::ValueId row(int64_t r, ir::ValueId added) {
    const Window down(axes.rows, r, r + 1), across(axes.columns, 0, axes.columns.stride);
    ir::Attributes attributes{{"layout", std::string("NHWC")},
                              {"pads", std::vector<int64_t>{-down.first, -across.first, down.pad_end, across.pad_end}}};
    for (const char* word : {"activation", "alpha", "beta", "residual"})
      if (const auto found = node.attributes.find(word); found != node.attributes.end()) attributes.insert(*found);
    if (node.has("slopes")) {
      std::vector<float> slopes;
      for (int64_t s = 0; s < axes.columns.stride; ++s)
        for (const float slope : node.reals("slopes")) slopes.push_back(slope);
      attributes["slopes"] = slopes;
    }
    std::vector<ir::ValueId> inputs{node.inputs[0], weights(r)};
    if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value) {
      const Tensor bias = *graph.constant(node.inputs[2]);
      inputs.push_back(
          graph.add_constant(name + ".bias" + std::to_string(r), repeated(bias, results, axes.columns.stride)));
    }
    const ir::Shape shape{batch, ir::Dim(height), ir::Dim(width), ir::Dim(deep)};
    if (added != ir::no_value) {
      inputs.resize(4, ir::no_value);
      inputs[3] = slice(added, {r * width}, {(r + 1) * width}, {2}, shape, ".residual" + std::to_string(r));
    }
    return apply("Conv", inputs, attributes, shape, ".row" + std::to_string(r));
  }

  ir::ValueId whole() {
    const int64_t phases = axes.rows.stride, all = phases * height, wide = axes.columns.stride * width;
    const bool is_cut = all != axes.rows.out || wide != axes.columns.out;
    const ir::Shape side{batch, ir::Dim(height), ir::Dim(phases * width), ir::Dim(deep)};
    ir::ValueId added = ir::no_value;
    if (node.inputs.size() > 3 && node.inputs[3] != ir::no_value)
      added = apply("Reshape", {node.inputs[3], constant(graph, "", {-1, height, phases * width, deep})}, {}, side,
                    ".residual");
    std::vector<ir::ValueId> rows;
    for (int64_t r = 0; r < phases; ++r) rows.push_back(row(r, added));
    const ir::ValueId joined = phases == 1 ? rows[0] : apply("Concat", rows, {{"axis", int64_t{2}}}, side, ".rows");
    const ir::ValueId image = apply("Reshape", {joined, constant(graph, "", {-1, all, wide, results})}, {},
                                    {batch, ir::Dim(all), ir::Dim(wide), ir::Dim(results)}, is_cut ? ".whole" : "");
    if (!is_cut) return image;
    return slice(image, {0, 0}, {axes.rows.out, axes.columns.out}, {1, 2}, *shape_of(graph, node.outputs[0]), "");
  }
};

/// The weights as numbers, or as bytes with scales along the results; nullptr: they are neither.
const Tensor* weights_of(const ir::Graph& graph, const ir::Node& node, bool as_bytes) {
  const Tensor* given = graph.constant(node.inputs[1]);
  if (!as_bytes) return given && given->dtype() == DType::f32 ? given : nullptr;
  const ir::Node* read = made_by(graph, node.inputs[1], "DequantizeLinear");
  if (!read || read->integer("block_size", 0) || !made_by(graph, node.inputs[0], "DequantizeLinear")) return nullptr;
  const Tensor *bytes = graph.constant(read->inputs[0]), *scales = graph.constant(read->inputs[1]);
  if (!bytes || !scales || size_of(bytes->dtype()) != 1 || scales->dtype() != DType::f32) return nullptr;
  const int64_t axis = read->integer("axis", 1), results = bytes->dims().rank() == 4 ? bytes->dims()[1] : 0;
  const auto fits = [&](const Tensor* list) {
    return list && (list->elements() == 1 || (list->elements() == results && (axis == 1 || axis == -3)));
  };
  const bool has_zero = read->inputs.size() > 2 && read->inputs[2] != ir::no_value;
  return fits(scales) && (!has_zero || fits(graph.constant(read->inputs[2]))) ? bytes : nullptr;
}

bool take_apart(ir::Graph& graph, ir::NodeId id, bool as_bytes, const std::function<bool(const std::string&)>& wanted) {
  const ir::Node& node = graph.node(id);
  if (node.op != "ConvTranspose" || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  const Tensor* weights = weights_of(graph, node, as_bytes);
  const auto axes = weights ? axes_of(graph, node, weights->dims()) : std::nullopt;
  if (!axes || (node.inputs.size() > 2 && node.inputs[2] != ir::no_value && !graph.constant(node.inputs[2])))
    return false;
  const bool is_cut = axes->rows.out % axes->rows.stride || axes->columns.out % axes->columns.stride;
  if (is_cut && node.inputs.size() > 3 && node.inputs[3] != ir::no_value) return false;
  if (wanted) {
    bool any = false;
    for (int64_t r = 0; r < axes->rows.stride; ++r)
      any |= wanted(graph.value(node.outputs[0]).name + ".row" + std::to_string(r));
    if (!any) return false;
  }
  Maker maker{graph, node, *axes};
  replace(graph, id, maker.whole());
  return true;
}

}  // namespace

bool deconvolution_rows(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return take_apart(graph, id, true, {}); });
}

bool split_deconvolutions(ir::Graph& graph, const std::function<bool(const std::string&)>& wanted) {
  return each_node(graph, [&](ir::NodeId id) { return take_apart(graph, id, false, wanted); });
}

}  // namespace tenon::passes
