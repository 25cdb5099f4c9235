// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes::factor_weights_pass {
namespace {

/// Weights of a convolution as constants times what a run multiplies their inputs and outputs by, for each image where
/// groups are images.
struct Factored {
  Tensor weights;  // [O, I, kernel...]
  int64_t images = 1, outputs = 0, inputs = 0;
  std::vector<ir::ValueId> of_inputs, of_outputs;  // [images or 1, I or O] and ones, and the reverse
};

bool is_of_sizes(const ir::Shape& shape, const std::vector<int64_t>& sizes) {
  return std::equal(shape.begin(), shape.end(), sizes.begin(), sizes.end(),
                    [](const ir::Dim& dim, int64_t size) { return dim == ir::Dim(size) || dim == ir::Dim(1); });
}

/// Which sizes of [images, O, I, ...] a factor has: those of inputs, of outputs or neither; nothing where of both.
bool sort(Factored& found, const ir::Graph& graph, ir::ValueId factor, size_t rank) {
  const ir::Shape* shape = shape_of(graph, factor);
  if (!shape || shape->size() != rank) return false;
  std::vector<int64_t> by_inputs(rank, 1), by_outputs(rank, 1);
  by_inputs[0] = by_outputs[0] = found.images;
  by_inputs[2] = found.inputs, by_outputs[1] = found.outputs;
  if (is_of_sizes(*shape, by_outputs)) found.of_outputs.push_back(factor);
  else if (is_of_sizes(*shape, by_inputs)) found.of_inputs.push_back(factor);
  else return false;
  return true;
}

std::optional<Factored> factored(const ir::Graph& graph, const ir::Node& conv) {
  const ir::Node* reshape = made_by(graph, conv.inputs[1], "Reshape");
  const auto whole = sizes_of(graph, conv.inputs[1]);
  if (!reshape || !whole) return std::nullopt;
  ir::ValueId value = reshape->inputs[0];
  const auto sizes = sizes_of(graph, value);
  if (!sizes || sizes->size() != whole->size() + 1 || (*sizes)[0] * (*sizes)[1] != (*whole)[0] ||
      !std::equal(sizes->begin() + 2, sizes->end(), whole->begin() + 1) || conv.integer("group", 1) != (*sizes)[0])
    return std::nullopt;
  Factored found{{}, (*sizes)[0], (*sizes)[1], (*sizes)[2], {}, {}};
  while (const ir::Node* product = made_by(graph, value, "Mul")) {
    // The operand that is multiplied on has all sizes but for that of images.
    const auto goes_on = [&](ir::ValueId one) {
      const auto own = sizes_of(graph, one);
      return own && own->size() == sizes->size() && std::equal(own->begin() + 1, own->end(), sizes->begin() + 1);
    };
    const bool second = goes_on(product->inputs[1]) && graph.constant(product->inputs[1]);
    const size_t at = goes_on(product->inputs[0]) && !second ? 0 : 1;
    if (!goes_on(product->inputs[at]) || !sort(found, graph, product->inputs[1 - at], sizes->size()))
      return std::nullopt;
    value = product->inputs[at];
  }
  const Tensor* constant = graph.constant(value);
  if (!constant || constant->dtype() != DType::f32 || constant->dims()[0] != 1 ||
      (found.of_inputs.empty() && found.of_outputs.empty()))
    return std::nullopt;
  found.weights = constant->reshaped(Dims(std::vector<int64_t>(constant->dims().begin() + 1, constant->dims().end())));
  return found;
}

/// A power of two by which the largest weights of an output add up to about one, so that sums stay in the range of
/// narrow floats where the factors of outputs are what holds them there.
float level(const Tensor& weights) {
  const int64_t size = weights.elements() / weights.dims()[0];
  double largest = 0;
  for (int64_t o = 0; o < weights.dims()[0]; ++o) {
    double sum = 0;
    for (int64_t at = 0; at < size; ++at) {
      const double one = weights.data<float>()[o * size + at];
      sum += one * one;
    }
    largest = std::max(largest, sum);
  }
  if (!(largest > 1e-30 && largest < 1e30)) return 1;
  return static_cast<float>(std::exp2(-std::round(std::log2(largest) / 2)));
}

bool factor(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Conv" || node.has("layout") || graph.value(node.outputs[0]).dtype != DType::f32) return false;
  const ir::Shape *x = shape_of(graph, node.inputs[0]), *y = shape_of(graph, node.outputs[0]);
  const auto found = factored(graph, node);
  if (!found || !x || !y || x->size() < 3 || (found->images > 1 && !((*x)[0] == ir::Dim(1))) ||
      !((*x)[1] == ir::Dim(found->images * found->inputs)))
    return false;
  const size_t rank = x->size();
  const std::string name = graph.value(node.outputs[0]).name;
  const auto apply = [&](const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return graph.apply(op, std::move(inputs), std::move(attributes), node.origins, name);
  };
  const auto reshaped = [&](ir::ValueId value, std::vector<int64_t> to) {
    return apply("Reshape", {value, constant(graph, name + ".sizes", to)});
  };
  // [images, channels, ...] of a tensor of [1, images * channels, ...], and back.
  const auto as_images = [&](ir::ValueId value, int64_t images, int64_t channels) {
    std::vector<int64_t> to(rank, 0);
    to[0] = images, to[1] = channels;
    return reshaped(value, to);
  };
  const auto multiplied = [&](ir::ValueId value, const std::vector<ir::ValueId>& factors, float number) {
    for (ir::ValueId one : factors) {
      std::vector<int64_t> to(rank, 1);
      to[0] = (*shape_of(graph, one))[0].value(), to[1] = -1;
      one = reshaped(one, to);
      if (number != 1) one = apply("Mul", {one, constant(graph, name + ".level", {}, std::vector<float>{number})});
      number = 1;
      value = apply("Mul", {value, one});
    }
    return value;
  };
  const float level_of = found->of_outputs.empty() ? 1 : level(found->weights);
  Tensor weights(DType::f32, found->weights.dims());
  for (int64_t at = 0; at < weights.elements(); ++at)
    weights.data<float>()[at] = found->weights.data<float>()[at] * level_of;
  ir::ValueId value = node.inputs[0];
  if (found->images > 1) value = as_images(value, found->images, found->inputs);
  value = multiplied(value, found->of_inputs, 1);
  ir::Attributes attributes = node.attributes;
  attributes["group"] = int64_t{1};
  value = apply("Conv", {value, graph.add_constant(name + ".weights", weights)}, attributes);
  value = multiplied(value, found->of_outputs, 1 / level_of);
  if (found->images > 1) value = as_images(value, 1, found->images * found->outputs);
  if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value) {
    std::vector<int64_t> to(rank, 1);
    to[1] = -1;
    value = apply("Add", {value, reshaped(node.inputs[2], to)});
  }
  replace(graph, id, value);
  return true;
}

}  // namespace
}  // namespace tenon::passes::factor_weights_pass

namespace tenon::passes {

bool factor_weights(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return factor_weights_pass::factor(graph, id); });
}

}  // namespace tenon::passes
