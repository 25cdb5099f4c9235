// SPDX-License-Identifier: Apache-2.0
#include "quant/float8.h"

#include <algorithm>
#include <cmath>

#include "ops/float8.h"
#include "ops/op.h"
#include "ops/round_weights.h"
#include "quant/structure.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

constexpr DType byte = DType::f8e4m3fn;
constexpr float largest = 448;
constexpr float least_scale = 1e-30f;

float scale_of(float most) { return std::max(most / largest, least_scale); }

/// Output channels and input channels of a group.
bool fits(const ir::Graph& graph, const ir::Node& anchor) {
  constexpr int64_t whole = 16;
  const WeightView view = weights_of(graph, anchor);
  const bool two_axes = !is_convolution(anchor) || graph.constant(anchor.inputs[1])->dims().rank() == 4;
  return two_axes && view.groups == 1 && view.rows % whole == 0 && view.channels() % whole == 0;
}

ir::ValueId stored_weights(ir::Graph& graph, const ir::Node& anchor, const std::string& name) {
  const WeightView view = weights_of(graph, anchor);
  const Tensor* weights = graph.constant(anchor.inputs[1]);
  Tensor bytes(byte, weights->dims());
  Tensor scales(DType::f32, Dims{view.rows}), scaled(DType::f32, {view.rows, view.inner / view.taps, view.taps});
  for (int64_t row = 0; row < view.rows; ++row) {
    float most = 0;
    for (int64_t i = 0; i < view.inner; ++i) most = std::max(most, std::fabs(view.at(row, i)));
    const float scale = scale_of(most);
    scales.data<float>()[row] = scale;
    for (int64_t i = 0; i < view.inner; ++i) scaled.data<float>()[row * view.inner + i] = view.at(row, i) / scale;
  }
  Tensor rounded(DType::f32, scaled.dims());
  ops::round_weights(scaled, byte, rounded);
  for (int64_t row = 0; row < view.rows; ++row)
    for (int64_t i = 0; i < view.inner; ++i)
      bytes.data<uint8_t>()[row * view.row_stride + i * view.inner_stride] =
          ops::f8_bits(rounded.data<float>()[row * view.inner + i], byte, true);
  const std::string stem = graph.value(anchor.inputs[1]).name;
  const ir::Attributes axis{{"axis", view.axis}};
  const std::vector<std::string> origins = anchor.origins;
  const ir::ValueId stored = graph.add_constant(stem + ".f8", bytes);
  return graph.apply("DequantizeLinear", {stored, graph.add_constant(stem + ".scales", scales)}, axis, origins,
                     name + ".weights");
}

void store_value(ir::Graph& graph, ir::ValueId id, const Range& range) {
  const ir::Value value = graph.value(id);
  const float most = std::max(std::fabs(range.low), std::fabs(range.high));
  const ir::ValueId scale =
      graph.add_constant(value.name + ".scale", Tensor::of<float>(DType::f32, {}, std::vector{scale_of(most)}));
  const ir::ValueId zero =
      graph.add_constant(value.name + ".zero", Tensor::of<uint8_t>(byte, {}, std::vector{uint8_t{0}}));
  const std::vector<std::string> origins =
      value.producer == ir::no_node ? std::vector<std::string>{} : graph.node(value.producer).origins;
  const ir::ValueId stored = graph.apply("QuantizeLinear", {id, scale, zero}, {}, origins, value.name + ".f8");
  const ir::ValueId read = graph.apply("DequantizeLinear", {stored, scale, zero}, {}, origins, value.name + ".read");
  for (const ir::NodeId user : value.users)
    for (size_t slot = 0; slot < graph.node(user).inputs.size(); ++slot)
      if (graph.node(user).inputs[slot] == id) graph.set_input(user, slot, read);
}

}  // namespace

Recipe float8_part(const ir::Graph& graph, const Recipe& recipe) {
  std::map<std::string, std::string> reasons;
  for (const ir::Node& node : graph.nodes)
    if (node.alive && role_of(graph, node) == Role::anchor && !fits(graph, node))
      reasons[graph.value(node.outputs[0]).name] = "channels do not fill whole groups of 16";
  Recipe without_pins = recipe;
  without_pins.pinned.clear();
  Recipe part = without(graph, without_pins, reasons);
  for (auto& [name, anchor] : part.anchors) anchor = {anchor.scales, {}, false, {}};
  part.factors.clear();
  part.evidence = recipe.evidence;
  return part;
}

void materialise_float8(ir::Graph& graph, const Recipe& recipe) {
  for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id) {
    if (!graph.node(id).alive || graph.node(id).outputs.empty()) continue;
    const std::string name = result_name(graph, graph.node(id));
    if (!recipe.anchors.count(name)) continue;
    graph.set_input(id, 1, stored_weights(graph, ir::Node(graph.node(id)), name));
  }
  for (ir::ValueId id = 0, count = static_cast<ir::ValueId>(graph.values.size()); id < count; ++id)
    if (const auto found = recipe.values.find(graph.value(id).name); found != recipe.values.end())
      store_value(graph, id, found->second.range());
  graph.tidy();
  ops::infer(graph);
  ir::verify(graph);
}

}  // namespace tenon::quant
