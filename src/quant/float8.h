// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"
#include "quant/recipe.h"

/// Eight bits as floats: e4m3, 4 bits of exponent and 3 of mantissa, without zero points.
namespace tenon::quant {

/// The part of a recipe for integers that kernels for e4m3 take: convolutions of one group and products whose channels
/// fill whole groups of 16. `graph` is the optimised graph that the recipe is for. The evidence stays that of integers,
/// whose errors tell which layers are the worst for floats, too.
Recipe float8_part(const ir::Graph& graph, const Recipe& recipe);

/// Puts the recipe's values through e4m3, and its anchors' weights: the largest number of a value's range, and of each
/// output channel's weights, becomes 448. Biases, factors and changes of weights, which serve integers, are left out.
void materialise_float8(ir::Graph& graph, const Recipe& recipe);

}  // namespace tenon::quant
