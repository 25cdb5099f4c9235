// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/pointwise.h"
#include "passes/resizing.h"

namespace tenon::passes {
namespace {

/// What an element that a step reads or writes costs more than a multiply-add of a convolution, on the CPUs that were
/// measured: 115 G multiply-adds/s of a core, 0.4 ns to resize an element and as much to add it.
constexpr double products_per_element = 64;

/// Channels of a pointwise convolution's input that one value holds.
struct Part {
  ir::ValueId value;
  int64_t first, width;
  std::optional<Resizing> resizing;
  double gain = 0;  // multiply-adds for each pixel of the output
};

std::vector<Part> parts_of(const ir::Graph& graph, const Pointwise& conv) {
  std::vector<Part> parts;
  const ir::Node* concat = sole(graph, conv.from, "Concat");
  const auto axis = concat ? axis_of(concat->integer("axis", 0), 4) : std::nullopt;
  std::vector<ir::ValueId> values{conv.from};
  if (axis == 3u) values = concat->inputs;
  int64_t first = 0;
  for (const ir::ValueId value : values) {
    const ir::Shape* shape = shape_of(graph, value);
    if (!shape || shape->size() != 4 || !shape->back().is_constant()) return {};
    Part part{value, first, shape->back().value(), resizing_of(graph, value)};
    first += part.width;
    if (part.resizing && part.resizing->in[0] == part.resizing->out[0] && part.resizing->in[3] == ir::Dim(part.width)) {
      const auto width = static_cast<double>(part.width), outputs = static_cast<double>(conv.outputs);
      part.gain = width * outputs * (1 - part.resizing->share) -
                  products_per_element * (outputs + std::max(0.0, outputs - width));
    }
    parts.push_back(part);
  }
  if (parts.size() == 1 && !parts[0].resizing) {
    // Of a map that others read, too, and that stays for them: nothing is added, but one more map is resized.
    Part& part = parts[0];
    part.resizing = resizing_of(graph, part.value, Readers::several);
    if (part.resizing && part.resizing->in[0] == part.resizing->out[0] && part.resizing->in[3] == ir::Dim(part.width))
      part.gain = static_cast<double>(conv.outputs) *
                  (static_cast<double>(part.width) * (1 - part.resizing->share) - products_per_element);
  }
  return first == conv.inputs ? parts : std::vector<Part>{};
}

/// The weights of those parts.
Tensor columns(const Tensor& weights, const std::vector<Part>& parts) {
  const int64_t outputs = weights.dims()[0], inputs = weights.dims()[1];
  int64_t width = 0;
  for (const Part& part : parts) width += part.width;
  Tensor result(DType::f32, Dims{outputs, width, 1, 1});
  float* to = result.data<float>();
  for (int64_t output = 0; output < outputs; ++output)
    for (const Part& part : parts)
      to = std::copy_n(weights.data<float>() + output * inputs + part.first, part.width, to);
  return result;
}

/// A pointwise convolution of a large map that was made of small ones, W [r(a), b] + c, is one of each: r(W a) + (W b +
/// c), as weights that add up to one commute with sums over channels.
bool split(ir::Graph& graph, ir::NodeId id) {
  const auto conv = pointwise_of(graph, id);
  if (!conv) return false;
  const ir::Node node = graph.node(id);
  const bool ends = node.has("activation") || node.inputs.size() > 3;
  std::vector<Part> moved, rest;
  for (const Part& part : parts_of(graph, *conv)) (part.gain > 0 ? moved : rest).push_back(part);
  if (moved.empty() || node.inputs.size() > 3) return false;
  std::stable_sort(moved.begin(), moved.end(), [](const Part& a, const Part& b) { return a.gain > b.gain; });
  // What ends the sum is taken along by a convolution: of the part that gains least, where there is no other.
  if (rest.empty() && (ends || moved.size() > 1)) rest.push_back(moved.back()), moved.pop_back();
  if (moved.empty()) return false;
  const std::string name = graph.value(node.outputs[0]).name, weights_name = graph.value(node.inputs[1]).name;
  const Tensor weights = *graph.constant(node.inputs[1]);
  ir::Attributes linear = node.attributes;
  for (const char* ending : {"activation", "alpha", "beta", "residual", "slopes"}) linear.erase(ending);
  ir::ValueId sum = ir::no_value;
  for (const Part& part : moved) {
    std::vector<ir::ValueId> inputs{part.resizing->from, graph.add_constant(weights_name, columns(weights, {part}))};
    if (rest.empty() && node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
    const ir::ValueId small = graph.apply("Conv", inputs, linear, node.origins, name);
    const ir::ValueId large = resized(graph, *part.resizing, small, {0, 1, 2, 3}, conv->outputs, node.origins);
    sum = sum == ir::no_value ? large : graph.apply("Add", {sum, large}, {}, node.origins, name);
  }
  if (rest.empty()) {
    replace(graph, id, sum);
    return true;
  }
  ir::ValueId from = rest.front().value;
  if (rest.size() > 1) {
    std::vector<ir::ValueId> values;
    for (const Part& part : rest) values.push_back(part.value);
    from = graph.apply("Concat", values, {{"axis", int64_t{3}}}, node.origins, name);
  }
  std::vector<ir::ValueId> inputs{from, graph.add_constant(weights_name, columns(weights, rest)),
                                  node.inputs.size() > 2 ? node.inputs[2] : ir::no_value, sum};
  ir::Attributes attributes = node.attributes;
  attributes["residual"] = std::string("before");
  replace(graph, id, graph.apply("Conv", inputs, attributes, node.origins, name));
  return true;
}

}  // namespace

bool products_before_resize(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return split(graph, id); });
}

}  // namespace tenon::passes
