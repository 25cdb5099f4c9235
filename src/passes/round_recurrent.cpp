// SPDX-License-Identifier: Apache-2.0
#include "passes/round_recurrent.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr float most_steps = 127;

float whole(float weight, float scale) { return std::clamp(std::nearbyint(weight / scale), -most_steps, most_steps); }

/// Of the scale that holds the largest weight and narrower ones down to a half of it, the one of least squared error.
float scale_of(const float* row, int64_t count) {
  float largest = 0;
  for (int64_t at = 0; at < count; ++at) largest = std::max(largest, std::fabs(row[at]));
  if (!(largest > 1e-30f) || !std::isfinite(largest)) return 1;
  float best = 0;
  double least = INFINITY;
  for (int step = 0; step <= 25; ++step) {
    const float scale = largest / most_steps * (1 - 0.02f * static_cast<float>(step));
    double error = 0;
    for (int64_t at = 0; at < count && error < least; ++at) {
      const double wrong = row[at] - whole(row[at], scale) * scale;
      error += wrong * wrong;
    }
    if (error < least) least = error, best = scale;
  }
  return best;
}

Tensor rounded(const Tensor& weights) {
  const int64_t count = weights.dims()[weights.dims().rank() - 1], rows = weights.elements() / count;
  Tensor result(DType::f32, weights.dims());
  for (int64_t row = 0; row < rows; ++row) {
    const float* const from = weights.data<float>() + row * count;
    const float scale = scale_of(from, count);
    std::transform(from, from + count, result.data<float>() + row * count,
                   [&](float weight) { return whole(weight, scale) * scale; });
  }
  return result;
}

}  // namespace

bool has_recurrent_weights(const ir::Graph& graph, const ir::Node& node) {
  if (!node.alive || (node.op != "LSTM" && node.op != "GRU" && node.op != "RNN")) return false;
  for (const size_t at : {size_t{1}, size_t{2}}) {
    const Tensor* const weights = graph.constant(node.inputs[at]);
    if (!weights || weights->dtype() != DType::f32 || weights->dims().rank() != 3 || weights->elements() == 0)
      return false;
  }
  return true;
}

bool round_recurrent(ir::Graph& graph, RecurrentWeights which, const std::function<bool(const ir::Node&)>& keeps) {
  if (which == RecurrentWeights::none) return false;
  return each_node(graph, [&](ir::NodeId id) {
    if (!has_recurrent_weights(graph, graph.node(id)) || keeps(graph.node(id))) return false;
    for (const size_t at : {size_t{1}, size_t{2}}) {
      if (at == 1 && which == RecurrentWeights::states) continue;
      const ir::ValueId weights = graph.node(id).inputs[at];
      const std::string name = graph.value(weights).name + ".i8";
      graph.set_input(id, at, graph.add_constant(name, rounded(*graph.constant(weights))));
    }
    return true;
  });
}

}  // namespace tenon::passes
