// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "ops/expression_id.h"

namespace tenon::cpu::recurrent {

/// An LSTM, GRU or RNN; a tenon:Recurrence has the product of the inputs behind it.
struct Layer {
  explicit Layer(const backends::Problem& problem);

  bool projected;
  size_t back, first, first_cell;  // places of the operands
  int64_t gates;                   // four of an LSTM, three of a GRU, one of an RNN
  bool reset_last, reverse;
  bool initial_h, initial_c;
  int64_t sequence, batch, inputs, hidden, directions;
  std::vector<expr::Id> curves;  // of an RNN, by direction

  int64_t rows() const { return gates * hidden; }
  /// The step's place in the sequence.
  int64_t time(int64_t direction, int64_t step) const { return reverse || direction == 1 ? sequence - 1 - step : step; }
  /// Biases of all gates of a direction: those of the inputs' product and those of the states'.
  std::vector<float> in_bias(const backends::Problem& problem, int64_t direction) const;
  std::vector<float> back_bias(const backends::Problem& problem, int64_t direction) const;
};

bool present(const backends::Problem& problem, size_t input);
/// What an RNN may apply in a direction.
std::optional<expr::Id> curve_named(const std::string& name);
/// The activations of an LSTM, a GRU or an RNN, as the node names them.
std::vector<std::string> activations_of(const backends::Problem& problem);

/// Steps that compute gates and activations as one; null where no kernel takes the product of the inputs.
std::unique_ptr<backends::Step> make_cells(const backends::Problem& problem, const Layer& layer);

}  // namespace tenon::cpu::recurrent
