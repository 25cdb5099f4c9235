// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/graph.h"
#include "quant/recipe.h"

namespace tenon::quant {

/// Writes a recipe into the optimised graph as standard QuantizeLinear and DequantizeLinear: a pair behind each value
/// that the recipe quantises, read by all of its users (an output of the graph keeps the value itself), and i8 weights
/// with one DequantizeLinear per output channel for each anchor. Biases stay floats.
void materialise(ir::Graph& graph, const Recipe& recipe);

/// The same numbers without the pairs: weights rounded and biases replaced, to try a recipe.
void round_weights(ir::Graph& graph, const Recipe& recipe);

}  // namespace tenon::quant
