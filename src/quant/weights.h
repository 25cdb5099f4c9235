#pragma once
#include "ir/graph.h"
#include "quant/recipe.h"

namespace tenon::quant {

/// The weights of an anchor as a matrix: `rows` output channels of `inner` weights each. `channel_of` says which input
/// channel (of `channels`) a weight multiplies.
struct WeightView {
  const float* data;
  int64_t rows, inner;
  int64_t row_stride, inner_stride;  // elements
  int64_t axis;                      // of the output channels
  int64_t groups = 1, taps = 1;      // convolution: groups, and weights of one input channel in a row
  float at(int64_t row, int64_t i) const { return data[row * row_stride + i * inner_stride]; }
  int64_t channels() const { return inner / taps * groups; }
  int64_t channel(int64_t row, int64_t i) const { return row / (rows / groups) * (inner / taps) + i / taps; }
};
WeightView weights_of(const ir::Graph& graph, const ir::Node& anchor);

/// Scales that keep the error of each row small: of max|w|/127 times 1, 0.98, … 0.5 the one with the least
/// sum of (w - stored w)^2 * importance of its input channel. `importance` holds E[x^2] by input channel; empty: all
/// alike.
std::vector<float> weight_scales(const WeightView& weights, const std::vector<double>& importance);

/// The weight as it is after being stored, -127..127 times scale.
inline int stored_weight(float weight, float scale) {
  return static_cast<int>(std::clamp(std::nearbyint(weight / scale), -127.f, 127.f));
}

/// i8 weights of the same sizes as the node's constant.
Tensor store_weights(const Tensor& weights, const WeightView& view, const std::vector<float>& scales);
/// The f32 weights that those stand for.
Tensor rounded_weights(const Tensor& weights, const WeightView& view, const std::vector<float>& scales);

}  // namespace tenon::quant
