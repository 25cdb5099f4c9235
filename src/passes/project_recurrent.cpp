// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The operands of an LSTM, a GRU or an RNN that are constants, of f32 and of the sizes that fit each other.
struct Weights {
  const Tensor *in, *back, *bias = nullptr;  // [directions, rows, inputs], [directions, rows, hidden], 2 rows each

  int64_t directions() const { return back->dims()[0]; }
  int64_t rows() const { return back->dims()[1]; }
  int64_t hidden() const { return back->dims()[2]; }
  int64_t inputs() const { return in->dims()[2]; }
  int64_t gates() const { return rows() / hidden(); }
};

std::optional<Weights> weights_of(const ir::Graph& graph, const ir::Node& node) {
  const bool biased = node.inputs.size() > 3 && node.inputs[3] != ir::no_value;
  const Weights weights{graph.constant(node.inputs[1]), graph.constant(node.inputs[2]),
                        biased ? graph.constant(node.inputs[3]) : nullptr};
  for (const Tensor* tensor : {weights.in, weights.back})
    if (!tensor || tensor->dtype() != DType::f32 || tensor->dims().rank() != 3 || tensor->elements() == 0)
      return std::nullopt;
  if (biased && (!weights.bias || weights.bias->dtype() != DType::f32)) return std::nullopt;
  return weights;
}

/// The cell, where it is one that kernels compute step by step: the standard's own activations, nothing clipped, the
/// reset gate of a GRU behind the product.
bool is_usual(const ir::Node& node) {
  if (node.integer("layout", 0) || node.integer("input_forget", 0) || node.real("clip", 0) != 0) return false;
  if (node.op == "GRU" && node.integer("linear_before_reset", 0) == 0) return false;
  for (size_t at : {size_t{4}, size_t{7}})
    if (at < node.inputs.size() && node.inputs[at] != ir::no_value) return false;
  if (!node.has("activations")) return true;
  const auto* names = std::get_if<std::vector<std::string>>(&node.attributes.at("activations"));
  const std::vector<std::string> usual = node.op == "LSTM"  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : node.op == "GRU" ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                            : std::vector<std::string>{"Tanh"};
  for (size_t at = 0; names && at < names->size(); ++at)
    if ((*names)[at] != usual[at % usual.size()]) return false;
  return names != nullptr;
}

/// The weights of all directions side by side, as the second operand of a product.
Tensor columns_of(const Weights& weights) {
  const int64_t count = weights.directions() * weights.rows(), inputs = weights.inputs();
  Tensor result(DType::f32, {inputs, count});
  for (int64_t row = 0; row < count; ++row)
    for (int64_t at = 0; at < inputs; ++at)
      result.data<float>()[at * count + row] = weights.in->data<float>()[row * inputs + at];
  return result;
}

/// The sums of both biases, without that of a GRU's candidate, which its reset gate scales.
Tensor bias_of(const Weights& weights, bool is_gru) {
  const int64_t rows = weights.rows(), added = is_gru ? rows - weights.hidden() : rows;
  Tensor result(DType::f32, {weights.directions() * rows});
  for (int64_t d = 0; d < weights.directions(); ++d)
    for (int64_t row = 0; row < rows; ++row) {
      const float* from = weights.bias->data<float>() + d * 2 * rows + row;
      result.data<float>()[d * rows + row] = from[0] + (row < added ? from[rows] : 0.f);
    }
  return result;
}
Tensor candidate_bias_of(const Weights& weights) {
  const int64_t rows = weights.rows(), hidden = weights.hidden();
  Tensor result(DType::f32, {weights.directions(), hidden});
  for (int64_t d = 0; d < weights.directions(); ++d)
    std::copy_n(weights.bias->data<float>() + (d * 2 + 2) * rows - hidden, hidden, result.data<float>() + d * hidden);
  return result;
}

/// The inputs of all steps in one matrix multiplication, the states step by step.
bool to_steps(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if ((node.op != "LSTM" && node.op != "GRU" && node.op != "RNN") || !is_usual(node)) return false;
  const auto weights = weights_of(graph, node);
  // A run may be the first to tell its sizes.
  const std::optional<ir::Shape> x = graph.value(node.inputs[0]).shape;
  if (!weights || (x && x->size() != 3) || graph.value(node.inputs[0]).dtype != DType::f32) return false;
  const bool is_gru = node.op == "GRU";
  const std::string name = node.origins.empty() ? node.op.str() : node.origins.front();
  // Made before the first is added: values move then.
  const Tensor columns = columns_of(*weights), back = *weights->back;
  std::vector<ir::ValueId> product{node.inputs[0], ir::no_value};
  std::optional<Tensor> bias, candidate_bias;
  if (weights->bias) {
    bias = bias_of(*weights, is_gru);
    if (is_gru) candidate_bias = candidate_bias_of(*weights);
  }
  product[1] = graph.add_constant(name + ".W", columns);
  if (bias) product.push_back(graph.add_constant(name + ".bias", *bias));
  const ir::ValueId gates = graph.apply("MatMul", product, {}, node.origins, name + ".gates");
  graph.value(gates).dtype = DType::f32;
  if (x) graph.value(gates).shape = ir::Shape{(*x)[0], (*x)[1], ir::Dim(columns.dims()[1])};
  const auto state = [&](size_t at) { return at < node.inputs.size() ? node.inputs[at] : ir::no_value; };
  std::vector<ir::ValueId> inputs{
      gates, graph.add_constant(name + ".R", back),
      candidate_bias ? graph.add_constant(name + ".candidate", *candidate_bias) : ir::no_value, state(5),
      node.op == "LSTM" ? state(6) : ir::no_value};
  while (inputs.back() == ir::no_value) inputs.pop_back();
  ir::Attributes attributes{{"cell", node.op.str()}};
  if (node.has("direction")) attributes.insert(*node.attributes.find("direction"));
  graph.set_inputs(id, inputs);
  graph.node(id).op = "tenon:Recurrence";
  graph.node(id).attributes = attributes;
  return true;
}

}  // namespace

bool project_recurrent(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_steps(graph, id); });
}

}  // namespace tenon::passes
