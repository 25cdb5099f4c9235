// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/build.h>

#include "ir/graph.h"

namespace tenon::quant {

/// Weights rounded to integers in blocks along K: what they are now, and what that costs.
struct RoundedWeights {
  int64_t products = 0, weights = 0;
  double error = 0;  ///< the root of the mean squared error over that of the weights
};

/// Gives MatMul and Gemm whose constant weights are of f32 and at least `least_weights` the same in blocks of 4 or 8
/// bits, behind a DequantizeLinear: symmetric, each block with the scale, a number of f16, by which its squared error
/// is least. `block`: weights of one output that share a scale.
RoundedWeights round_to_blocks(ir::Graph& graph, int bits, int64_t block);

constexpr int64_t least_weights = 1 << 14;  // of a product that is rounded

}  // namespace tenon::quant
