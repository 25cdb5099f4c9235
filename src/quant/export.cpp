// SPDX-License-Identifier: Apache-2.0
#include "quant/export.h"

#include <tenon/error.h>

#include <set>

#include "base/check.h"
#include "ops/op.h"
#include "quant/materialise.h"
#include "quant/structure.h"
#include "quant/weights.h"

namespace tenon::quant {
namespace {

/// Nodes of a graph by the names of the ONNX nodes that they stand for; the last one where several do.
std::map<std::string, ir::NodeId> by_origin(const ir::Graph& graph) {
  std::map<std::string, ir::NodeId> found;
  for (ir::NodeId id = 0; id < static_cast<ir::NodeId>(graph.nodes.size()); ++id)
    for (const std::string& origin : graph.node(id).origins) found[origin] = id;
  return found;
}

std::optional<int64_t> elements(const ir::Value& value) {
  if (!value.shape) return std::nullopt;
  const ir::Dim all = ir::product(*value.shape);
  return all.is_constant() ? std::optional(all.value()) : std::nullopt;
}

/// The node of `plain` that holds the anchor which `node` stands for.
ir::NodeId anchor_of(const ir::Graph& plain, const std::map<std::string, ir::NodeId>& nodes, const ir::Node& node) {
  for (const std::string& origin : node.origins)
    if (const auto found = nodes.find(origin); found != nodes.end())
      if (role_of(plain, plain.node(found->second)) == Role::anchor) return found->second;
  return ir::no_node;
}

std::vector<float> bias_of(const ir::Graph& graph, const ir::Node& node) {
  const Tensor* bias = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
  if (!bias || bias->dtype() != DType::f32) return {};
  return {bias->values<float>().begin(), bias->values<float>().end()};
}

/// The bias of a recipe for a node that has `plain` where the recipe's has `optimised`, which may hold sums that come
/// later in the plain graph.
std::vector<float> moved_bias(std::vector<float> bias, const std::vector<float>& optimised,
                              const std::vector<float>& plain) {
  for (size_t at = 0; at < bias.size(); ++at) {
    if (at < optimised.size()) bias[at] -= optimised[at];
    if (at < plain.size()) bias[at] += plain[at];
  }
  return bias;
}

/// i8 with zero point 0 over the same range.
Quantiser symmetric(const Quantiser& quantiser) {
  const Range range = quantiser.range();
  return {std::max(-range.low / 128, range.high / 127), 128};
}

bool dequantises(const ir::Node* node) { return node && ops::has_trait(node->op, ops::Trait::dequantises); }

/// u8 constants around 128 become i8 around 0, where style wants it: the same grid.
void make_signed(ir::Graph& graph) {
  for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id) {
    const ir::Node& node = graph.node(id);
    if (!ops::has_trait(node.op, ops::Trait::quantises) && !dequantises(&node)) continue;
    const Tensor* zero = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
    if (!zero || zero->dtype() != DType::u8) continue;
    const auto value = static_cast<int8_t>(zero->data<uint8_t>()[0] - 128);
    const ir::ValueId made = graph.add_constant(graph.value(node.inputs[2]).name + ".i8",
                                                Tensor::of<int8_t>(DType::i8, {}, std::vector<int8_t>{value}));
    graph.set_input(id, 2, made);
  }
}

/// Biases as i32 on the grid of the sums, where they fit.
void store_biases(ir::Graph& graph) {
  for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id) {
    const ir::Node node = graph.node(id);
    if (!is_convolution(node) || node.inputs.size() < 3 || !graph.constant(node.inputs[2])) continue;
    const ir::Node *input = graph.producer(node.inputs[0]), *weights = graph.producer(node.inputs[1]);
    if (!dequantises(input) || !dequantises(weights)) continue;
    const float scale = graph.constant(input->inputs[1])->data<float>()[0];
    const Tensor &scales = *graph.constant(weights->inputs[1]), &bias = *graph.constant(node.inputs[2]);
    Tensor stored(DType::i32, bias.dims()), sizes(DType::f32, bias.dims());
    bool fits = bias.elements() == scales.elements();
    for (int64_t at = 0; fits && at < bias.elements(); ++at) {
      sizes.data<float>()[at] = scale * scales.data<float>()[at];
      const double grid = std::nearbyint(static_cast<double>(bias.data<float>()[at]) / sizes.data<float>()[at]);
      fits = std::fabs(grid) < 2e9;
      if (fits) stored.data<int32_t>()[at] = static_cast<int32_t>(grid);
    }
    if (!fits) continue;
    const std::string name = graph.value(node.inputs[2]).name;
    const ir::ValueId whole = graph.add_constant(name + ".i32", stored);
    const ir::ValueId grid = graph.add_constant(name + ".scales", sizes);
    graph.set_input(id, 2, graph.apply("DequantizeLinear", {whole, grid}, {{"axis", int64_t{0}}}, node.origins, name));
  }
}

/// Biases that the standard's op has not, as a MatMul.
void split_biases(ir::Graph& graph) {
  for (ir::NodeId id = 0, count = static_cast<ir::NodeId>(graph.nodes.size()); id < count; ++id) {
    const ir::Node node = graph.node(id);
    const int most = ops::traits_of(node.op).standard_inputs();
    if (!node.alive || most != 2 || static_cast<int>(node.inputs.size()) <= most) continue;
    const ir::Value old = graph.value(node.outputs[0]);
    const ir::ValueId sums =
        graph.apply(node.op, {node.inputs[0], node.inputs[1]}, node.attributes, node.origins, old.name + ".products");
    const ir::ValueId result = graph.apply("Add", {sums, node.inputs[2]}, {}, node.origins, old.name);
    for (const ir::ValueId value : {sums, result}) graph.value(value).dtype = old.dtype;
    graph.replace_uses(node.outputs[0], result);
    graph.remove(id);
  }
}

}  // namespace

std::vector<std::string> passes_of_ours() {
  return {"recognise_activations", "simplify_einsum", "lower_einsum", "lower_attention", "lift_1d",
          "turn_columns",          "lower_conv3d",    "layout_nhwc",  "fuse_epilogue",   "fuse_elementwise"};
}

std::map<std::string, std::string> same_tensors(const ir::Graph& optimised, const ir::Graph& plain) {
  const std::map<std::string, ir::NodeId> nodes = by_origin(plain);
  std::map<std::string, std::string> names;
  for (const ir::ValueId id : optimised.inputs) names[optimised.value(id).name] = optimised.value(id).name;
  for (const ir::Node& node : optimised.nodes) {
    ir::NodeId last = ir::no_node;
    for (const std::string& origin : node.origins)
      if (const auto found = nodes.find(origin); found != nodes.end()) last = std::max(last, found->second);
    if (last == ir::no_node) continue;
    const std::vector<ir::ValueId>& there = plain.node(last).outputs;
    for (size_t at = 0; at < node.outputs.size(); ++at) {
      const size_t slot = node.outputs.size() == there.size() ? at : 0;
      if (node.outputs[at] == ir::no_value || slot >= there.size() || there[slot] == ir::no_value) continue;
      const auto ours = elements(optimised.value(node.outputs[at])), theirs = elements(plain.value(there[slot]));
      if (ours && theirs && *ours != *theirs) continue;
      names[optimised.value(node.outputs[at]).name] = plain.value(there[slot]).name;
    }
  }
  return names;
}

void export_recipe(const ir::Graph& optimised, const Recipe& recipe, Style style, ir::Graph& plain) {
  const std::map<std::string, std::string> names = same_tensors(optimised, plain);
  const std::map<std::string, ir::NodeId> nodes = by_origin(plain);
  Recipe own;
  for (const auto& [name, quantiser] : recipe.values)
    if (const auto found = names.find(name); found != names.end())
      own.values[found->second] = style == Style::tensorrt ? symmetric(quantiser) : quantiser;
  for (const ir::Node& node : optimised.nodes) {
    if (node.outputs.empty()) continue;
    const auto found = recipe.anchors.find(result_name(optimised, node));
    if (found == recipe.anchors.end()) continue;
    const ir::NodeId there = anchor_of(plain, nodes, node);
    if (there == ir::no_node || weights_of(plain, plain.node(there)).rows != weights_of(optimised, node).rows)
      throw Error(Code::unsupported, "a layer of the recipe is not found in the plain model",
                  {.where = "node " + node.label() + " (" + node.op + ")"});
    WeightQuantiser& weights = own.anchors[result_name(plain, plain.node(there))] = found->second;
    weights.bias = moved_bias(weights.bias, bias_of(optimised, node), bias_of(plain, plain.node(there)));
  }
  materialise(plain, own);
  if (style == Style::tensorrt) make_signed(plain);
  if (style == Style::onnxruntime) store_biases(plain);
  split_biases(plain);
  plain.tidy();
  ops::infer(plain);
}

}  // namespace tenon::quant
