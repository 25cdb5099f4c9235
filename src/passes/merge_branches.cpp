// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A convolution by constant weights whose result a sum alone reads.
struct Branch {
  const ir::Node* node;
  const Tensor* weights;  // [outputs, inputs of a group, window]
  const Tensor* bias;     // nullptr: there is none
  std::vector<int64_t> strides, pads;

  int64_t outputs() const { return weights->dims()[0]; }
  size_t axes() const { return weights->dims().rank() - 2; }
  int64_t group() const { return node->integer("group", 1); }
};

std::optional<Branch> branch_of(const ir::Graph& graph, ir::ValueId id) {
  const ir::Node* node = sole(graph, id, "Conv");
  if (!node || node->inputs.size() > 3 || graph.is_output(id) || node->text("auto_pad", "NOTSET") != "NOTSET" ||
      node->has("activation") || node->has("layout"))
    return std::nullopt;
  const bool has_bias = node->inputs.size() > 2 && node->inputs[2] != ir::no_value;
  Branch branch{node, graph.constant(node->inputs[1]), has_bias ? graph.constant(node->inputs[2]) : nullptr, {}, {}};
  if (!branch.weights || branch.weights->dtype() != DType::f32 || branch.weights->dims().rank() < 3)
    return std::nullopt;
  if (has_bias && (!branch.bias || branch.bias->dtype() != DType::f32)) return std::nullopt;
  const std::vector<int64_t> ones(branch.axes(), 1);
  if (node->integers("dilations", ones) != ones) return std::nullopt;
  branch.strides = node->integers("strides", ones);
  branch.pads = node->integers("pads", std::vector<int64_t>(2 * branch.axes(), 0));
  return branch;
}

/// A number for each channel of an input of that rank.
std::optional<std::vector<float>> by_channel(const ir::Graph& graph, ir::ValueId id, size_t rank, int64_t channels) {
  const Tensor* tensor = graph.constant(id);
  if (!tensor || tensor->dtype() != DType::f32 || tensor->dims().rank() > rank) return std::nullopt;
  const float* from = tensor->data<float>();
  if (tensor->elements() == 1) return std::vector<float>(static_cast<size_t>(channels), *from);
  const size_t from_back = rank - 1;  // the channels' place
  if (tensor->elements() != channels || tensor->dims().rank() < from_back ||
      tensor->dims()[tensor->dims().rank() - from_back] != channels)
    return std::nullopt;
  return std::vector<float>(from, from + channels);
}

/// x * scale + shift, by channel.
struct Affine {
  std::vector<float> scale, shift;
};

/// How a value comes of `x` so, if it does, and a sum alone reads what lies between.
std::optional<Affine> affine_of(const ir::Graph& graph, ir::ValueId id, ir::ValueId x, int64_t channels) {
  const auto rank = rank_of(graph, x);
  if (!rank || graph.is_output(id)) return std::nullopt;
  const auto other = [&](const ir::Node& node, auto&& wanted) -> std::optional<std::vector<float>> {
    for (const size_t at : {size_t{0}, size_t{1}})
      if (wanted(node.inputs[at])) return by_channel(graph, node.inputs[1 - at], *rank, channels);
    return std::nullopt;
  };
  Affine affine{{}, std::vector<float>(static_cast<size_t>(channels), 0.f)};
  const ir::Node* scaled = sole(graph, id, "Mul");
  if (const ir::Node* shifted = sole(graph, id, "Add")) {
    const auto shift = other(*shifted, [&](ir::ValueId input) { return sole(graph, input, "Mul") != nullptr; });
    if (!shift) return std::nullopt;
    affine.shift = *shift;
    for (const ir::ValueId input : shifted->inputs)
      if (const ir::Node* node = sole(graph, input, "Mul")) scaled = node;
  }
  if (!scaled) return std::nullopt;
  const auto scale = other(*scaled, [&](ir::ValueId input) { return input == x; });
  if (!scale) return std::nullopt;
  affine.scale = *scale;
  return affine;
}

/// Where a window of `sizes` and these pads lies in that of a convolution, if all that both read is the same.
std::optional<std::vector<int64_t>> place_in(const Branch& outer, const std::vector<int64_t>& sizes,
                                             const std::vector<int64_t>& pads) {
  std::vector<int64_t> place;
  for (size_t axis = 0; axis < outer.axes(); ++axis) {
    const int64_t before = outer.pads[axis] - pads[axis];
    const int64_t behind = outer.pads[axis + outer.axes()] - pads[axis + outer.axes()];
    if (before < 0 || behind < 0 || before + sizes[axis] + behind != outer.weights->dims()[axis + 2])
      return std::nullopt;
    place.push_back(before);
  }
  return place;
}

/// Weights and a bias that grow.
struct Sum {
  Dims dims;
  std::vector<float> weights, bias;

  explicit Sum(const Branch& from)
      : dims(from.weights->dims()),
        weights(from.weights->data<float>(), from.weights->data<float>() + from.weights->elements()),
        bias(static_cast<size_t>(from.outputs()), 0.f) {
    add(from.bias, 1);
  }
  void add(const Tensor* more, float sign) {
    for (size_t at = 0; more && at < bias.size(); ++at) bias[at] += sign * more->data<float>()[at];
  }
  /// The weight of an output, an input of its group and a tap `offset` taps of a window of `sizes` behind `place`.
  float& at(int64_t output, int64_t input, const std::vector<int64_t>& place, const std::vector<int64_t>& sizes,
            int64_t offset) {
    int64_t index = output * dims[1] + input, left = offset;
    std::vector<int64_t> tap(sizes.size());
    for (size_t axis = sizes.size(); axis-- > 0; left /= sizes[axis]) tap[axis] = place[axis] + left % sizes[axis];
    for (size_t axis = 0; axis < sizes.size(); ++axis) index = index * dims[axis + 2] + tap[axis];
    return weights[static_cast<size_t>(index)];
  }
};

bool add_convolution(Sum& sum, const Branch& outer, const Branch& inner, float sign) {
  if (inner.node->inputs[0] != outer.node->inputs[0] || inner.group() != outer.group() ||
      inner.strides != outer.strides || inner.axes() != outer.axes() || inner.outputs() != outer.outputs() ||
      inner.weights->dims()[1] != outer.weights->dims()[1])
    return false;
  const Dims& dims = inner.weights->dims();
  const std::vector<int64_t> sizes(dims.begin() + 2, dims.end());
  const auto place = place_in(outer, sizes, inner.pads);
  if (!place) return false;
  const int64_t taps = inner.weights->elements() / (dims[0] * dims[1]);
  const float* from = inner.weights->data<float>();
  for (int64_t output = 0; output < dims[0]; ++output)
    for (int64_t input = 0; input < dims[1]; ++input)
      for (int64_t tap = 0; tap < taps; ++tap) sum.at(output, input, *place, sizes, tap) += sign * *from++;
  sum.add(inner.bias, sign);
  return true;
}

bool add_affine(Sum& sum, const Branch& outer, const Affine& affine, float sign) {
  const std::vector<int64_t> ones(outer.axes(), 1), none(2 * outer.axes(), 0);
  const auto place = place_in(outer, ones, none);
  if (!place || outer.strides != ones) return false;
  const int64_t inputs = outer.weights->dims()[1];
  for (int64_t channel = 0; channel < outer.outputs(); ++channel) {
    sum.at(channel, channel % inputs, *place, ones, 0) += sign * affine.scale[static_cast<size_t>(channel)];
    sum.bias[static_cast<size_t>(channel)] += sign * affine.shift[static_cast<size_t>(channel)];
  }
  return true;
}

/// The convolution that gives the sum of one and another value, or by a sign of -1 their difference.
std::optional<Sum> merged(const ir::Graph& graph, const Branch& outer, ir::ValueId other, float sign) {
  Sum sum(outer);
  if (const auto inner = branch_of(graph, other)) {
    if (add_convolution(sum, outer, *inner, sign)) return sum;
    return std::nullopt;
  }
  // As many outputs as inputs, each group its own.
  if (outer.outputs() != outer.weights->dims()[1] * outer.group()) return std::nullopt;
  const auto affine = affine_of(graph, other, outer.node->inputs[0], outer.outputs());
  if (affine && add_affine(sum, outer, *affine, sign)) return sum;
  return std::nullopt;
}

}  // namespace

/// Convolutions of one input that are added or subtracted, windows of several sizes and scaled inputs among them, are
/// one whose weights are added: RepVGG's form for inference (Ding et al., 2021), of whatever branches a network trains.
bool merge_branches(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node node = graph.node(id);
    const bool subtracts = node.op == "Sub";
    if ((node.op != "Add" && !subtracts) || !same_shape(graph, node.inputs[0], node.inputs[1])) return false;
    for (size_t at = 0; at < (subtracts ? 1 : 2); ++at) {
      const auto outer = branch_of(graph, node.inputs[at]);
      const auto sum = outer ? merged(graph, *outer, node.inputs[1 - at], subtracts ? -1.f : 1.f) : std::nullopt;
      if (!sum) continue;
      const ir::Node& other = graph.node(graph.value(node.inputs[1 - at]).producer);
      const std::string name = graph.value(node.outputs[0]).name;
      const auto origins = joined(joined(outer->node->origins, other.origins), node.origins);
      const ir::Attributes attributes = outer->node->attributes;
      const ir::ValueId x = outer->node->inputs[0];
      const ir::ValueId weights = constant(graph, name + ".weights", sum->dims, sum->weights);
      const ir::ValueId bias = constant(graph, name + ".bias", {static_cast<int64_t>(sum->bias.size())}, sum->bias);
      replace(graph, id, graph.apply("Conv", {x, weights, bias}, attributes, origins, name));
      return true;
    }
    return false;
  });
}

}  // namespace tenon::passes
