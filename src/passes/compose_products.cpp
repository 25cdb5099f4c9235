// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/pointwise.h"

namespace tenon::passes {

std::optional<Pointwise> pointwise_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (node.op != "Conv" || node.text("layout", "") != "NHWC" || node.text("input_layout", "") == "NCHW" ||
      node.integer("group", 1) != 1)
    return std::nullopt;
  const Tensor* weights = graph.constant(node.inputs[1]);
  if (!weights || weights->dtype() != DType::f32 || weights->dims().rank() != 4 || weights->dims()[2] != 1 ||
      weights->dims()[3] != 1)
    return std::nullopt;
  const std::vector<int64_t> ones(2, 1), none(4, 0);
  if (node.integers("strides", ones) != ones || node.integers("pads", none) != none ||
      node.text("auto_pad", "NOTSET") != "NOTSET" || graph.value(node.inputs[0]).dtype != DType::f32)
    return std::nullopt;
  return Pointwise{node.inputs[0], weights->dims()[0], weights->dims()[1]};
}

namespace {

/// x A + a, whose result is read once: A is [inputs, outputs].
struct Linear {
  ir::NodeId id;
  ir::ValueId from;
  int64_t inputs, outputs;
  bool has_bias;
  std::vector<double> matrix, bias;
};

std::optional<Linear> linear_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* node = graph.producer(value);
  if (!node || graph.only_user(value) == ir::no_node || node->inputs.size() > 3 || node->has("activation") ||
      node->has("residual"))
    return std::nullopt;
  const ir::NodeId id = graph.value(value).producer;
  const bool is_product = node->op == "MatMul";
  const Tensor* weights = node->inputs.size() > 1 ? graph.constant(node->inputs[1]) : nullptr;
  if (!weights || weights->dtype() != DType::f32) return std::nullopt;
  if (is_product ? weights->dims().rank() != 2 || node->has("alpha") : !pointwise_of(graph, id)) return std::nullopt;
  const bool has_bias = node->inputs.size() > 2 && node->inputs[2] != ir::no_value;
  const Tensor* bias = has_bias ? graph.constant(node->inputs[2]) : nullptr;
  Linear linear{
      id, node->inputs[0], weights->dims()[is_product ? 0 : 1], weights->dims()[is_product ? 1 : 0], has_bias, {}, {}};
  if (has_bias && (!bias || bias->dtype() != DType::f32 || bias->elements() != linear.outputs)) return std::nullopt;
  const float* from = weights->data<float>();
  for (int64_t in = 0; in < linear.inputs; ++in)
    for (int64_t out = 0; out < linear.outputs; ++out)
      linear.matrix.push_back(is_product ? from[in * linear.outputs + out] : from[out * linear.inputs + in]);
  linear.bias.assign(static_cast<size_t>(linear.outputs), 0);
  for (int64_t at = 0; bias && at < linear.outputs; ++at) linear.bias[at] = bias->data<float>()[at];
  return linear;
}

/// B (A x + a) + b is (B A) x + (B a + b), where that takes fewer products.
bool compose(ir::Graph& graph, ir::NodeId id) {
  const auto conv = pointwise_of(graph, id);
  if (!conv) return false;
  const ir::Node* reshape = sole(graph, conv->from, "Reshape");
  const auto linear = linear_of(graph, reshape ? reshape->inputs[0] : conv->from);
  if (!linear || linear->outputs != conv->inputs ||
      linear->inputs * conv->outputs >= conv->inputs * (linear->inputs + conv->outputs))
    return false;
  const ir::Node node = graph.node(id), first = graph.node(linear->id);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != ir::no_value;
  const Tensor* old_bias = has_bias ? graph.constant(node.inputs[2]) : nullptr;
  const ir::Shape *from = shape_of(graph, linear->from), *seen = shape_of(graph, conv->from);
  if ((has_bias && (!old_bias || old_bias->dtype() != DType::f32)) || !from || !seen) return false;
  ir::Shape to = *seen;
  to.back() = ir::Dim(linear->inputs);
  const auto target = reshape ? reshape_target(*from, to) : std::vector<int64_t>{};
  if (!target) return false;
  std::vector<float> weights, bias;
  const float* outer = graph.constant(node.inputs[1])->data<float>();
  std::vector<double> row(static_cast<size_t>(linear->inputs));
  for (int64_t out = 0; out < conv->outputs; ++out) {
    double shift = old_bias ? old_bias->data<float>()[out] : 0;
    for (int64_t at = 0; at < conv->inputs; ++at) shift += outer[out * conv->inputs + at] * linear->bias[at];
    for (int64_t in = 0; in < linear->inputs; ++in) {
      const double* matrix = linear->matrix.data() + in * linear->outputs;
      row[in] = 0;
      for (int64_t at = 0; at < conv->inputs; ++at) row[in] += outer[out * conv->inputs + at] * matrix[at];
    }
    weights.insert(weights.end(), row.begin(), row.end());
    bias.push_back(static_cast<float>(shift));
  }
  const std::string name = graph.value(node.inputs[1]).name;
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[0] = linear->from;
  if (reshape)
    inputs[0] = graph.apply("Reshape", {linear->from, constant(graph, name + ".shape", *target)}, {},
                            joined(first.origins, reshape->origins), name);
  inputs[1] = constant(graph, name, Dims{conv->outputs, linear->inputs, 1, 1}, weights);
  if (has_bias || linear->has_bias) {
    inputs.resize(std::max<size_t>(3, inputs.size()), ir::no_value);
    inputs[2] = constant(graph, name + ".bias", Dims{conv->outputs}, bias);
  }
  graph.set_inputs(id, inputs);
  graph.node(id).origins = joined(first.origins, node.origins);
  return true;
}

}  // namespace

bool compose_products(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return compose(graph, id); });
}

}  // namespace tenon::passes
