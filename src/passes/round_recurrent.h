// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>

#include "ir/graph.h"

namespace tenon::passes {

/// Whether a node is an LSTM, a GRU or an RNN whose weights are constants in f32.
bool has_recurrent_weights(const ir::Graph& graph, const ir::Node& node);

/// Rounds the weights of these to 8 bits, those of the states or of the inputs, too, with the scale for each row by
/// which its squared error is least: kernels multiply such by numbers of 16 bits. `keeps`: which nodes stay as they
/// are. Whether there were any others.
enum class RecurrentWeights : uint8_t { none, states, all };
bool round_recurrent(ir::Graph& graph, RecurrentWeights which, const std::function<bool(const ir::Node&)>& keeps);

}  // namespace tenon::passes
