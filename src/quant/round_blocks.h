// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/build.h>

#include <vector>

#include "ir/graph.h"
#include "quant/compensate.h"

namespace tenon::quant {

/// Weights rounded to integers in blocks along K: what they are now, and what that costs.
struct RoundedWeights {
  int64_t products = 0, weights = 0;
  double error = 0;  ///< the root of the mean squared error over that of the weights
  double squared_error = 0, power = 0;
};

/// How weights become integers: of 4 or 8 bits, `block` of one output with a scale.
struct BlockForm {
  int bits;
  int64_t block;
};

/// MatMul and Gemm whose constant weights are of f32 and at least `least_weights`, in the order in which they run.
std::vector<ir::NodeId> products_to_round(const ir::Graph& graph);
/// Inputs of such a product's outputs.
int64_t columns_of(const ir::Graph& graph, ir::NodeId product);
/// Gives such a product its weights in blocks, behind a DequantizeLinear: symmetric, each block with the scale, a
/// number of f16, by which its squared error is least. With `inputs`, which are factorised, weights make up for the
/// errors of those before them. Adds to `all`.
void round_product(ir::Graph& graph, ir::NodeId product, const BlockForm& form, const InputProducts* inputs,
                   ThreadPool& thread_pool, RoundedWeights& all);

constexpr int64_t least_weights = 1 << 14;  // of a product that is rounded

}  // namespace tenon::quant
