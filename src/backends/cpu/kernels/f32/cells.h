// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

// Recurrent cells with their usual activations. A GRU has its reset gate behind the product; where that comes before,
// `gru_gates` give the update gate and what is left of the state, which `gru_candidate` multiplies.
enum class Cell : uint8_t { lstm, gru, gru_gates, gru_candidate, rnn };

constexpr int64_t cell_gates(Cell cell) {
  return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : cell == Cell::gru_gates ? 2 : 1;
}
// Biases of a unit: of a GRU's candidate one for what inputs give and one for what states give.
constexpr int64_t cell_biases(Cell cell) { return cell == Cell::gru ? 4 : cell_gates(cell); }

// Units lie in groups of a vector, zeros behind the last one.
struct CellWeights {
  Cell cell;
  expr::Id curve;          // of an RNN: Tanh, Relu or Sigmoid
  int64_t inputs, hidden;  // K of what is multiplied by weights here: inputs (none: 0), then states
  const float* packed;     // [group][K][gate][lane]
  const float* bias;       // [group][bias][lane]
};

// A step of some sequences, whose rows lie `..._pitch` floats apart.
struct CellRows {
  int64_t rows;
  const float* x;  // where weights have inputs
  int64_t x_pitch;
  const float* added;  // to the gates, [gate][unit]; null: nothing
  int64_t added_pitch;
  const float* state;  // null: zeros
  const float* last;   // of a GRU: the state before the step
  float* next;         // not `state`; gru_gates: what is left of it
  float* cell;         // of an LSTM, in place; the update gate of gru_gates and gru_candidate
  bool backwards;      // the last group first
};

struct CellOps {
  int lanes;
  // Units of groups begin to end; one sum over K for each gate and unit, in order, inputs first.
  void (*step)(const CellWeights& weights, const CellRows& rows, int64_t begin, int64_t end);
};

const CellOps& cell_ops(Isa isa);
namespace portable {
extern const CellOps cell_ops;
}
namespace fused {
extern const CellOps cell_ops;
}
namespace avx2 {
extern const CellOps cell_ops;
}
namespace avx512 {
extern const CellOps cell_ops;
}

// Weights of `gates` (rows of W and R, [gate][unit][...]) as `step` reads them; `inputs` of 0 leaves W out.
void pack_cells(const CellWeights& form, int lanes, const float* w, const float* r, float* packed);
int64_t packed_cell_floats(const CellWeights& form, int lanes);

}  // namespace tenon::cpu
