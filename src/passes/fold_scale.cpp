// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// y * factor + offset, with one number per channel; one of the two is idle.
struct Step {
  ir::ValueId from;
  std::vector<float> factor, offset;
};

/// A constant as one number per channel (axis `axis` of `rank`); nullopt where it varies along another axis.
std::optional<std::vector<float>> per_channel(const Tensor& tensor, size_t axis, size_t rank, int64_t channels) {
  const Dims& dims = tensor.dims();
  if (tensor.dtype() != DType::f32 || dims.rank() > rank) return std::nullopt;
  for (size_t at = 0; at < dims.rank(); ++at) {
    const bool is_channel = at + rank - dims.rank() == axis;
    if (dims[at] != 1 && !(is_channel && dims[at] == channels)) return std::nullopt;
  }
  std::vector<float> result(channels, 0.0f);
  const bool one = tensor.elements() == 1;
  for (int64_t c = 0; c < channels; ++c) result[c] = tensor.data<float>()[one ? 0 : c];
  return result;
}

std::optional<Step> read_step(const ir::Graph& graph, const ir::Node& node, size_t axis, size_t rank,
                              int64_t channels) {
  const bool mul = node.op == "Mul", add = node.op == "Add", sub = node.op == "Sub", div = node.op == "Div";
  if (!mul && !add && !sub && !div) return std::nullopt;
  const bool swapped = graph.constant(node.inputs[0]) != nullptr;
  const Tensor* tensor = graph.constant(node.inputs[swapped ? 0 : 1]);
  if (!tensor || (div && swapped)) return std::nullopt;
  auto numbers = per_channel(*tensor, axis, rank, channels);
  if (!numbers) return std::nullopt;
  Step step{node.inputs[swapped ? 1 : 0], std::vector<float>(channels, 1.0f), std::vector<float>(channels, 0.0f)};
  for (int64_t c = 0; c < channels; ++c) {
    const float number = (*numbers)[c];
    if (mul) step.factor[c] = number;
    if (div) step.factor[c] = 1.0f / number;
    if (add) step.offset[c] = number;
    if (sub) step.offset[c] = swapped ? number : -number;
    if (sub && swapped) step.factor[c] = -1.0f;
  }
  return step;
}

/// Where the output channels of a node's weights lie.
struct Weights {
  size_t axis;  // of the weights
  int64_t channels;
  size_t output_axis, output_rank;
  int64_t groups = 1;  // ConvTranspose: channels are axis 1 of each group of input channels
  float alpha = 1, beta = 1;
  bool takes_bias = true;
};

std::optional<Weights> weights_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.size() < 2 || node.has("activation") || node.has("residual") || node.has("layout"))
    return std::nullopt;
  const Tensor* tensor = graph.constant(node.inputs[1]);
  const auto rank = rank_of(graph, node.outputs[0]);
  if (!tensor || !rank || tensor->dtype() != DType::f32) return std::nullopt;
  if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value && !graph.constant(node.inputs[2])) return std::nullopt;
  const Dims& dims = tensor->dims();
  const bool normalises = node.op == "GroupNormalization" || node.op == "InstanceNormalization";
  if (normalises && dims.rank() == 1) return Weights{0, dims[0], 1, *rank};
  if (dims.rank() < 2) return std::nullopt;
  if (node.op == "Conv") return Weights{0, dims[0], 1, *rank};
  if (node.op == "ConvTranspose") {
    const int64_t groups = node.integer("group", 1);
    if (groups < 1 || dims[0] % groups != 0) return std::nullopt;
    return Weights{1, dims[1] * groups, 1, *rank, groups};
  }
  if (node.op == "Gemm") {
    const size_t axis = node.integer("transB", 0) ? 0 : 1;
    return Weights{axis, dims[axis], 1, 2, 1, node.real("alpha", 1), node.real("beta", 1)};
  }
  if (node.op == "MatMul" && dims.rank() == 2 && node.inputs.size() == 2 && *rank >= 2)
    return Weights{1, dims[1], *rank - 1, *rank, 1, 1, 1, false};
  return std::nullopt;
}

Tensor scaled(const Tensor& tensor, const Weights& weights, const std::vector<float>& factor) {
  Tensor result = tensor.copy();
  int64_t inner = 1;
  for (size_t at = weights.axis + 1; at < tensor.dims().rank(); ++at) inner *= tensor.dims()[at];
  const int64_t along = tensor.dims()[weights.axis];
  const int64_t outer_per_group = weights.axis == 1 ? tensor.dims()[0] / weights.groups : 1;
  for (int64_t at = 0; at < tensor.elements(); ++at) {
    const int64_t group = weights.groups > 1 ? at / inner / along / outer_per_group : 0;
    result.data<float>()[at] *= factor[group * along + at / inner % along];
  }
  return result;
}

bool absorb(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.inputs.size() != 2) return false;
  for (ir::ValueId input : node.inputs) {
    const ir::Node* source = graph.producer(input);
    if (!source || graph.only_user(input) != id) continue;
    const auto weights = weights_of(graph, *source);
    const ir::Shape* shape = shape_of(graph, node.outputs[0]);
    if (!weights || !shape || !same_shape(graph, input, node.outputs[0])) continue;
    const auto step = read_step(graph, node, weights->output_axis, weights->output_rank, weights->channels);
    if (!step || step->from != input) continue;
    const bool offsets = node.op != "Mul" && node.op != "Div";
    if (offsets && !weights->takes_bias) continue;
    std::vector<float> bias(weights->channels, 0.0f);
    const bool has_bias = source->inputs.size() > 2 && source->inputs[2] != ir::no_value;
    if (has_bias) {
      const auto old =
          per_channel(*graph.constant(source->inputs[2]), weights->output_axis == 1 && source->op == "Gemm" ? 1 : 0,
                      source->op == "Gemm" ? 2 : 1, weights->channels);
      if (!old) continue;
      bias = *old;
    }
    for (int64_t c = 0; c < weights->channels; ++c)
      bias[c] = bias[c] * weights->beta * step->factor[c] + step->offset[c];
    const ir::NodeId target = graph.value(input).producer;
    const Tensor& old = *graph.constant(source->inputs[1]);
    std::vector<ir::ValueId> inputs = source->inputs;
    const std::string name = graph.value(inputs[1]).name;
    const bool scales = step->factor != std::vector<float>(weights->channels, 1.0f);
    if (scales) inputs[1] = graph.add_constant(name, scaled(old, *weights, step->factor));
    if (has_bias || offsets) {
      inputs.resize(3, ir::no_value);
      inputs[2] = constant(graph, name + ".bias", {weights->channels}, bias);
    }
    graph.set_inputs(target, inputs);
    ir::Node& changed = graph.node(target);
    if (changed.has("beta")) changed.attributes["beta"] = 1.0f;
    changed.origins = joined(changed.origins, node.origins);
    replace(graph, id, input);
    return true;
  }
  return false;
}

/// The constant of an Add and the product that it adds it to.
struct Sum {
  ir::NodeId add, product;
  size_t constant;  // the input of the Add
};

std::optional<Sum> biased_product(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* add = sole(graph, value, "Add");
  if (!add) return std::nullopt;
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const ir::ValueId made = add->inputs[1 - at];
    if (graph.constant(add->inputs[at]) && sole(graph, made, "MatMul") && same_shape(graph, made, value))
      return Sum{graph.value(value).producer, graph.value(made).producer, at};
  }
  return std::nullopt;
}

/// (x W + b) g, turned or not, with a number per channel or one, as blocks of ConvNeXt and scores end: g becomes
/// part of W and b.
bool absorb_behind_bias(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Mul") return false;
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const Tensor* numbers = graph.constant(node.inputs[1 - at]);
    const ir::ValueId scaled_value = node.inputs[at];
    const auto rank = rank_of(graph, scaled_value);
    if (!numbers || !rank || *rank < 2 || graph.only_user(scaled_value) != id) continue;
    if (!same_shape(graph, scaled_value, node.outputs[0])) continue;
    const ir::Node* turn = sole(graph, scaled_value, "Transpose");
    const auto sum = biased_product(graph, turn ? turn->inputs[0] : scaled_value);
    if (!sum) continue;
    size_t axis = *rank - 1;
    if (turn) {
      const auto perm = turn->integers("perm");
      const auto place = std::find(perm.begin(), perm.end(), static_cast<int64_t>(*rank) - 1);
      if (place == perm.end()) continue;
      axis = static_cast<size_t>(place - perm.begin());
    }
    const ir::Node &add = graph.node(sum->add), &product = graph.node(sum->product);
    const auto weights = weights_of(graph, product);
    if (!weights || (numbers->elements() != weights->channels && numbers->elements() != 1)) continue;
    const auto factor = per_channel(*numbers, axis, *rank, weights->channels);
    auto bias = per_channel(*graph.constant(add.inputs[sum->constant]), *rank - 1, *rank, weights->channels);
    if (!factor || !bias) continue;
    for (int64_t c = 0; c < weights->channels; ++c) (*bias)[c] *= (*factor)[c];
    std::vector<ir::ValueId> product_inputs = product.inputs, add_inputs = add.inputs;
    const std::string name = graph.value(product_inputs[1]).name;
    const Tensor scaled_weights = scaled(*graph.constant(product_inputs[1]), *weights, *factor);
    // An infinity in the place of a sum's would be no number where signs differ.
    if (!is_finite(scaled_weights.values<float>()) || !is_finite(*bias)) continue;
    product_inputs[1] = graph.add_constant(name, scaled_weights);
    add_inputs[sum->constant] = constant(graph, name + ".bias", {weights->channels}, *bias);
    graph.set_inputs(sum->product, product_inputs);
    graph.set_inputs(sum->add, add_inputs);
    graph.node(sum->product).origins = joined(graph.node(sum->product).origins, node.origins);
    replace(graph, id, scaled_value);
    return true;
  }
  return false;
}

}  // namespace

bool fold_scale(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return absorb(graph, id) || absorb_behind_bias(graph, id); });
}

}  // namespace tenon::passes
