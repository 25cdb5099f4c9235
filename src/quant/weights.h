// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

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
  bool pairable = false;             // a kernel would gain by paired weights; see store_row
  const float* factors = nullptr;    // by input channel, multiplied in; none: 1
  float at(int64_t row, int64_t i) const {
    const float weight = data[row * row_stride + i * inner_stride];
    return factors ? weight * factors[channel(row, i)] : weight;
  }
  int64_t channels() const { return inner / taps * groups; }
  int64_t channel(int64_t row, int64_t i) const { return row / (rows / groups) * (inner / taps) + i / taps; }
};
/// `factors` has those of the anchor's input where it has some, and must outlive the view.
WeightView weights_of(const ir::Graph& graph, const ir::Node& anchor, const Factors& factors = {});

/// Scales that keep the error of each row small: of max|w|/127 times 1, 0.98, … 0.5 (of paired weights from 2 on)
/// the one with the least sum of (w - stored w)^2 * importance of its input channel. `importance` holds E[x^2] by input
/// channel; empty: all alike.
std::vector<float> weight_scales(const WeightView& weights, const std::vector<double>& importance, bool paired = false);

/// The weights of a row as they are stored, in the row's order: round(w / scale) within -127..127. Where they are
/// paired, two neighbours of one sign, tap after tap and channel after channel, add up to at most 128: instructions
/// that sum two products of a byte and a weight in 16 bits (vpmaddubsw) are exact then. What is too much is taken from
/// both alike.
std::vector<int8_t> store_row(const WeightView& view, int64_t row, float scale, bool paired);

/// Whether neighbours in a row are as store_row makes them where they are paired.
bool are_paired(const WeightView& view, const std::vector<int8_t>& stored);
/// How far one of a row's weights may be changed from what store_row gives.
inline constexpr int most_change = 12;
/// The same with the changes that an anchor's recipe makes to them.
std::vector<int8_t> stored_row(const WeightView& view, int64_t row, const WeightQuantiser& how);

/// i8 weights of the same sizes as the node's constant.
Tensor store_weights(const Tensor& weights, const WeightView& view, const WeightQuantiser& how);
/// The f32 weights that those stand for.
Tensor rounded_weights(const Tensor& weights, const WeightView& view, const WeightQuantiser& how);

}  // namespace tenon::quant
