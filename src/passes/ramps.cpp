// SPDX-License-Identifier: Apache-2.0
#include "passes/ramps.h"

#include <algorithm>
#include <cstdlib>

#include "ops/op.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int most_makers = 32;                       // from a value to where its elements come from
constexpr int64_t largest_index = int64_t{1} << 40;   // sums and differences of such do not overflow
constexpr int64_t largest_factor = int64_t{1} << 20;  // nor do products of such

bool is_small(int64_t number) { return number >= -largest_index && number <= largest_index; }

/// The ramp of every `pitch`th of the numbers from `first` on, over axes of the sizes `dims`.
std::optional<Ramp> ramp_of(const std::vector<int64_t>& numbers, const Dims& dims, size_t pitch, size_t first) {
  const auto count = static_cast<size_t>(dims.elements());
  if (count == 0 || numbers.size() != count * pitch) return std::nullopt;
  if (!std::all_of(numbers.begin(), numbers.end(), is_small)) return std::nullopt;
  std::vector<size_t> strides(dims.rank(), 1);
  for (size_t axis = dims.rank(); axis-- > 1;) strides[axis - 1] = strides[axis] * static_cast<size_t>(dims[axis]);
  const auto at = [&](size_t element) { return numbers[element * pitch + first]; };
  Ramp ramp{at(0), std::vector<int64_t>(dims.rank(), 0)};
  for (size_t axis = 0; axis < dims.rank(); ++axis)
    if (dims[axis] > 1) ramp.steps[axis] = at(strides[axis]) - at(0);
  // One step back along the last axis that an element is not first on: the others follow from that.
  for (size_t element = 1; element < count; ++element) {
    size_t axis = dims.rank() - 1;
    while (element % (strides[axis] * static_cast<size_t>(dims[axis])) == 0) --axis;
    while (element / strides[axis] % static_cast<size_t>(dims[axis]) == 0) --axis;
    if (at(element) - at(element - strides[axis]) != ramp.steps[axis]) return std::nullopt;
  }
  return ramp;
}

std::optional<ir::Dim> one_element(const ir::Graph& graph, ir::ValueId value) {
  if (value == ir::no_value) return std::nullopt;
  if (const auto numbers = integers(graph, value); numbers && numbers->size() == 1) return ir::Dim(numbers->front());
  const auto& content = graph.value(value).content;
  return content && content->size() == 1 ? std::optional(content->front()) : std::nullopt;
}

std::optional<Ramp> range(const ir::Graph& graph, const ir::Node& node) {
  const auto start = one_element(graph, node.inputs[0]), step = one_element(graph, node.inputs[2]);
  if (!start || !step || !step->is_constant() || !is_small(step->value())) return std::nullopt;
  if (start->is_constant() && !is_small(start->value())) return std::nullopt;
  const ir::Shape& shape = *shape_of(graph, node.outputs[0]);
  return Ramp{*start, {shape[0] == ir::Dim(1) ? 0 : step->value()}};
}

/// The same elements along axes that others of one element may stand between.
std::optional<Ramp> reshaped(const Ramp& ramp, const ir::Shape& from, const ir::Shape& to) {
  Ramp result{ramp.start, std::vector<int64_t>(to.size(), 0)};
  size_t axis = 0;
  for (size_t at = 0; at < to.size(); ++at) {
    if (to[at] == ir::Dim(1)) continue;
    while (axis < from.size() && from[axis] == ir::Dim(1)) ++axis;
    if (axis == from.size() || !(from[axis] == to[at])) return std::nullopt;
    result.steps[at] = ramp.steps[axis++];
  }
  while (axis < from.size() && from[axis] == ir::Dim(1)) ++axis;
  return axis == from.size() ? std::optional(result) : std::nullopt;
}

/// The same elements repeated along axes of one element, and along others before them.
std::optional<Ramp> repeated(const Ramp& ramp, const ir::Shape& from, const ir::Shape& to) {
  if (from.size() > to.size()) return std::nullopt;
  const size_t gap = to.size() - from.size();
  Ramp result{ramp.start, std::vector<int64_t>(to.size(), 0)};
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == ir::Dim(1)) continue;
    if (!(from[axis] == to[axis + gap])) return std::nullopt;
    result.steps[axis + gap] = ramp.steps[axis];
  }
  return result;
}

/// A part of a ramp that follows its steps.
std::optional<Ramp> sliced(const ir::Graph& graph, const ir::Node& node, Ramp ramp) {
  const auto starts = integers(graph, node.inputs[1]);
  const auto axes = node.inputs.size() > 3 ? integers(graph, node.inputs[3]) : std::nullopt;
  const auto by = node.inputs.size() > 4 ? integers(graph, node.inputs[4]) : std::nullopt;
  if (!starts || (node.inputs.size() > 3 && !axes) || (node.inputs.size() > 4 && !by)) return std::nullopt;
  const ir::Shape &from = *shape_of(graph, node.inputs[0]), &to = *shape_of(graph, node.outputs[0]);
  for (size_t at = 0; at < starts->size(); ++at) {
    const auto axis = axis_of(axes ? (*axes)[at] : static_cast<int64_t>(at), from.size());
    if (!axis || (by && (*by)[at] != 1) || (ramp.steps[*axis] != 0 && ramp.steps[*axis] != 1)) return std::nullopt;
    int64_t start = (*starts)[at];
    if (start < 0 && from[*axis].is_constant()) start = std::max<int64_t>(start + from[*axis].value(), 0);
    if (start < 0 || start > largest_index) return std::nullopt;
    ramp.start = ramp.start + ir::Dim(start) * ir::Dim(ramp.steps[*axis]);
    if (to[*axis] == ir::Dim(1)) ramp.steps[*axis] = 0;
  }
  return ramp;
}

std::optional<Ramp> transposed(const ir::Node& node, const Ramp& ramp) {
  if (!node.has("perm")) return std::nullopt;
  Ramp result{ramp.start, {}};
  for (const int64_t axis : node.integers("perm")) result.steps.push_back(ramp.steps[static_cast<size_t>(axis)]);
  return result;
}

std::optional<Ramp> find(const ir::Graph& graph, ir::ValueId value, int left);

/// The sum of two ramps that repeat along axes of one element.
std::optional<Ramp> sum_of_ramps(const ir::Graph& graph, const ir::Node& node, const ir::Shape& to, int left) {
  Ramp result{0, std::vector<int64_t>(to.size(), 0)};
  for (const ir::ValueId input : node.inputs) {
    const auto ramp = find(graph, input, left);
    const auto part = ramp ? repeated(*ramp, *shape_of(graph, input), to) : std::nullopt;
    if (!part) return std::nullopt;
    result.start = result.start + part->start;
    for (size_t axis = 0; axis < to.size(); ++axis) result.steps[axis] += part->steps[axis];
  }
  return std::all_of(result.steps.begin(), result.steps.end(), is_small) ? std::optional(result) : std::nullopt;
}

/// A ramp times a number.
std::optional<Ramp> ramp_times(const ir::Graph& graph, const ir::Node& node, const ir::Shape& to, int left) {
  for (size_t side = 0; side < 2; ++side) {
    const auto number = integers(graph, node.inputs[1 - side]);
    if (!number || number->size() != 1 || std::abs(number->front()) > largest_factor) continue;
    const auto ramp = find(graph, node.inputs[side], left);
    auto result = ramp ? repeated(*ramp, *shape_of(graph, node.inputs[side]), to) : std::nullopt;
    if (!result) return std::nullopt;
    for (int64_t& step : result->steps) {
      if (std::abs(step) > largest_factor) return std::nullopt;
      step *= number->front();
    }
    if (result->start.is_constant() && std::abs(result->start.value()) > largest_factor) return std::nullopt;
    result->start = result->start * ir::Dim(number->front());
    return result;
  }
  return std::nullopt;
}

std::optional<Ramp> find(const ir::Graph& graph, ir::ValueId value, int left) {
  if (value == ir::no_value || left == 0) return std::nullopt;
  const DType type = graph.value(value).dtype;
  const ir::Shape* shape = shape_of(graph, value);
  if (!shape || (type != DType::i64 && type != DType::i32)) return std::nullopt;
  if (const Tensor* tensor = graph.constant(value)) return ramp_of(*integers(graph, value), tensor->dims(), 1, 0);
  const ir::Node* node = graph.producer(value);
  if (!node) return std::nullopt;
  if (node->op == "Range") return range(graph, *node);
  if (node->op == "Add") return sum_of_ramps(graph, *node, *shape, left - 1);
  if (node->op == "Mul") return ramp_times(graph, *node, *shape, left - 1);
  if (node->op == "ConstantOfShape") {
    const auto found = node->attributes.find("value");
    const auto* fill = found == node->attributes.end() ? nullptr : std::get_if<Tensor>(&found->second);
    if (!fill || fill->dtype() != DType::i64 || !is_small(*fill->data<int64_t>())) return std::nullopt;
    return Ramp{*fill->data<int64_t>(), std::vector<int64_t>(shape->size(), 0)};
  }
  const bool view = ops::has_trait(*node, ops::Trait::view), permutes = ops::has_trait(*node, ops::Trait::permutes);
  const bool converts = ops::has_trait(*node, ops::Trait::converts) && type == DType::i64;
  if (!view && !converts && !permutes && node->op != "Expand" && node->op != "Slice") return std::nullopt;
  const ir::Shape* from = shape_of(graph, node->inputs[0]);
  const auto ramp = from ? find(graph, node->inputs[0], left - 1) : std::nullopt;
  if (!ramp || converts) return ramp;
  if (view) return reshaped(*ramp, *from, *shape);
  if (permutes) return transposed(*node, *ramp);
  return node->op == "Expand" ? repeated(*ramp, *from, *shape) : sliced(graph, *node, *ramp);
}

/// The ramp of a value without its last axis, which has one element.
std::optional<Ramp> of_ones(const ir::Graph& graph, ir::ValueId value) {
  const ir::Shape* shape = shape_of(graph, value);
  if (!shape || shape->empty() || !(shape->back() == ir::Dim(1))) return std::nullopt;
  auto ramp = find(graph, value, most_makers);
  if (ramp) ramp->steps.pop_back();
  return ramp;
}

}  // namespace

std::optional<Ramp> ramp_of(const ir::Graph& graph, ir::ValueId value) { return find(graph, value, most_makers); }

std::vector<Ramp> ramps_of_tuples(const ir::Graph& graph, ir::ValueId tuples) {
  const ir::Shape* shape = shape_of(graph, tuples);
  if (!shape || shape->empty()) return {};
  std::vector<Ramp> ramps;
  if (const auto numbers = integers(graph, tuples)) {
    const Dims& dims = graph.constant(tuples)->dims();
    Dims places;
    for (size_t axis = 0; axis + 1 < dims.rank(); ++axis) places.push_back(dims[axis]);
    const auto length = static_cast<size_t>(dims.back());
    for (size_t at = 0; at < length; ++at) {
      const auto ramp = ramp_of(*numbers, places, length, at);
      if (!ramp) return {};
      ramps.push_back(*ramp);
    }
    return ramps;
  }
  const ir::Node* concat = made_by(graph, tuples, "Concat");
  const bool joins = concat && axis_of(concat->integer("axis", 0), shape->size()) == shape->size() - 1;
  for (const ir::ValueId part : joins ? concat->inputs : std::vector<ir::ValueId>{tuples}) {
    const auto ramp = of_ones(graph, part);
    if (!ramp) return {};
    ramps.push_back(*ramp);
  }
  return ramps;
}

}  // namespace tenon::passes
