// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/cells.h"
#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/support.h"
#include "backends/cpu/packing.h"
#include "backends/cpu/recurrent.h"
#include "backends/cpu/row_product.h"
#include "base/pages.h"

namespace tenon::cpu::recurrent {
namespace {

using backends::Problem;

/// What a step computes one behind the other.
std::vector<Cell> cells_of(const Layer& layer) {
  if (layer.gates == 4) return {Cell::lstm};
  if (layer.gates == 1) return {Cell::rnn};
  return layer.reset_last ? std::vector{Cell::gru} : std::vector{Cell::gru_gates, Cell::gru_candidate};
}

/// Bytes of a direction's weights that each step reads, of inputs (0: none) and states.
int64_t step_bytes(const Layer& layer, int64_t inputs) {
  return layer.rows() * (inputs + layer.hidden) * static_cast<int64_t>(sizeof(float));
}

constexpr int64_t first_level = 32 << 10, second_level = 1 << 20;  // bytes of weights that a core's caches surely keep

/// Whether each step multiplies its inputs, too: where a product of all steps would be no faster, and would only write
/// and read the gates once more.
bool joins_inputs(const Layer& layer) {
  constexpr int64_t few_inputs = 8, many_rows = 16;
  if (layer.projected) return false;
  return layer.inputs <= few_inputs || (layer.batch >= many_rows && step_bytes(layer, layer.inputs) <= second_level);
}

/// Cycles of a step's products for so many rows: 32 products a cycle, and bytes of weights a cycle from a cache.
double product_cycles(int64_t rows, int64_t bytes) {
  const double a_cycle = bytes <= first_level ? 100 : bytes <= second_level ? 40 : bytes <= 2 * second_level ? 20 : 10;
  return static_cast<double>(rows * bytes) / (4 * 32) + static_cast<double>(bytes) / a_cycle;
}

/// In how many blocks the rows of the batch are cut, so that each thread takes blocks of a direction through all steps
/// and waits for nobody; 0: the threads share the units of each step.
int64_t blocks_of(const Layer& layer, int64_t inputs, int threads) {
  constexpr double barrier = 900, from_another_core = 4;  // cycles; bytes of states a cycle
  if (threads == 1) return 0;
  const int64_t blocks = threads / std::gcd<int64_t>(threads, layer.directions), bytes = step_bytes(layer, inputs);
  if (blocks > layer.batch) return 0;
  const double apart =
      static_cast<double>(layer.directions * blocks) / threads * product_cycles(ceil_div(layer.batch, blocks), bytes);
  const auto states = static_cast<double>(layer.batch * layer.hidden * static_cast<int64_t>(sizeof(float)));
  const double shared = static_cast<double>(layer.directions) *
                        (product_cycles(layer.batch, ceil_div(bytes, threads)) +
                         static_cast<double>(cells_of(layer).size()) * (barrier + states / from_another_core));
  return apart <= shared ? blocks : 0;
}

class CellSteps : public backends::Step {
 public:
  CellSteps(const Problem& problem, const Layer& layer)
      : layer_(layer),
        ops_(cell_ops(isa_for(problem))),
        joined_(joins_inputs(layer)),
        blocks_(blocks_of(layer, joined_ ? layer.inputs : 0, problem.threads)),
        groups_(ceil_div(layer.hidden, ops_.lanes)),
        outputs_(problem.outputs.size()) {
    for (int64_t d = 0; d < layer_.directions; ++d) {
      int64_t gate = 0;
      for (const Cell cell : cells_of(layer)) {
        cells_.push_back(packed_cell(problem, d, cell, gate));
        gate += cell_gates(cell);
      }
      if (layer_.projected || joined_) continue;
      const RowProduct::Sizes sizes{layer_.sequence * layer_.batch, layer_.inputs, layer_.rows(), layer_.rows()};
      in_.push_back(float_product(sizes, weights(problem, 1, d), layer_.in_bias(problem, d), problem));
    }
    if (!complete()) return;
    for (const auto& product : in_)
      kernel_bytes_ = std::max(kernel_bytes_, (product->workspace_bytes() + 63) / 64 * 64);
    for (const size_t at : {1, 2}) {
      if (!present(problem, at) || !problem.inputs[at].constant) continue;
      const Tensor& constant = problem.inputs[at].constant;
      release_pages(constant.data(), constant.bytes());
    }
  }
  bool complete() const {
    return std::all_of(in_.begin(), in_.end(), [](const auto& product) { return product != nullptr; });
  }
  size_t workspace_bytes() const override {
    return kernel_bytes_ + static_cast<size_t>(gates_floats() + 4 * layer_.directions * state()) * sizeof(float);
  }
  size_t packed_bytes() const override {
    size_t bytes = 0;
    for (const auto& product : in_) bytes += product->packed_bytes();
    for (const PackedCell& cell : cells_) bytes += cell.packed->size();
    return bytes;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    const auto project = [&](int64_t d) {
      if (in_.empty()) return;
      in_[static_cast<size_t>(d)]->run(x, gates_of(worker, d), worker);
      worker.sync();
    };
    if (blocks_ == 0) {
      for (int64_t d = 0; d < layer_.directions; ++d) {
        project(d);
        Part part{d, 0, layer_.batch, 0, 0};
        worker.share(groups_, part.first_group, part.last_group);
        steps(part, inputs, outputs, worker, true);
      }
      return;
    }
    for (int64_t d = 0; d < layer_.directions; ++d) project(d);
    each_part(worker, static_cast<int>(layer_.directions * blocks_), [&](const Worker& one) {
      const int64_t block = one.id % blocks_;
      steps({one.id / blocks_, layer_.batch * block / blocks_, layer_.batch * (block + 1) / blocks_, 0, groups_},
            inputs, outputs, worker, false);
    });
  }

 private:
  /// Rows and groups of units of a direction.
  struct Part {
    int64_t direction, first_row, last_row, first_group, last_group;
  };

  int64_t state() const { return layer_.batch * layer_.hidden; }
  int64_t gates_floats() const {
    if (layer_.projected || joined_) return 0;
    return (blocks_ ? layer_.directions : 1) * layer_.sequence * layer_.batch * layer_.rows();
  }
  /// What the inputs give to the gates of a direction in all steps.
  float* gates_of(const Worker& worker, int64_t direction) const {
    auto* const all = reinterpret_cast<float*>(worker.workspace + kernel_bytes_);
    return all + (blocks_ ? direction * layer_.sequence * layer_.batch * layer_.rows() : 0);
  }
  /// Weights of some gates of a direction.
  struct PackedCell {
    Cell cell;
    int64_t first_gate;
    Packed packed;
    AlignedFloats bias;
  };

  const float* weights(const Problem& problem, size_t input, int64_t direction) const {
    const backends::Operand& operand = problem.inputs[input];
    return operand.constant.data<float>() + direction * (operand.dims.elements() / layer_.directions);
  }

  /// Of the gates from `first_gate` on.
  PackedCell packed_cell(const Problem& problem, int64_t d, Cell cell, int64_t first_gate) const {
    const int64_t hidden = layer_.hidden, lanes = ops_.lanes, many = cell_biases(cell);
    const CellWeights form{cell, curve_of(d), joined_ ? layer_.inputs : 0, hidden, nullptr, nullptr};
    const float* const w = joined_ ? weights(problem, 1, d) + first_gate * hidden * layer_.inputs : nullptr;
    const float* const r = weights(problem, layer_.back, d) + first_gate * hidden * hidden;
    const auto make = [&]() -> Packed {
      const auto packed = std::make_shared<const PackedBytes>(
          static_cast<size_t>(packed_cell_floats(form, ops_.lanes)) * sizeof(float));
      pack_cells(form, ops_.lanes, w, r, floats_of(*packed));
      return packed;
    };
    const auto number = [](auto pointer) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer)); };
    PackedCell made{cell, first_gate, nullptr, AlignedFloats(static_cast<size_t>(groups_ * many * lanes))};
    made.packed =
        problem.weights
            ? problem.weights->get(
                  {number(r), number(w), number(&pack_cells), form.inputs, hidden, cell_gates(cell), lanes}, make)
            : make();
    const std::vector<float> in = layer_.in_bias(problem, d), back = layer_.back_bias(problem, d);
    for (int64_t unit = 0; unit < hidden; ++unit) {
      const auto put = [&](int64_t which, int64_t gate, bool of_inputs, bool of_states) {
        const auto at = static_cast<size_t>((first_gate + gate) * hidden + unit);
        made.bias[static_cast<size_t>((unit / lanes * many + which) * lanes + unit % lanes)] =
            (of_states ? back[at] : 0.f) + (of_inputs && joined_ ? in[at] : 0.f);
      };
      for (int64_t gate = 0; gate < cell_gates(cell); ++gate) put(gate, gate, true, cell != Cell::gru || gate < 2);
      if (cell == Cell::gru) put(3, 2, false, true);
    }
    return made;
  }
  expr::Id curve_of(int64_t direction) const {
    return layer_.gates == 1 ? layer_.curves[static_cast<size_t>(direction)] : expr::Id::Tanh;
  }

  /// Where a direction's states lie.
  struct States {
    float *turns, *cell, *masked;  // two states by turns, that of an LSTM's cell, what a GRU's reset gate leaves
  };
  States states_of(const Worker& worker, int64_t d) const {
    auto* const all = reinterpret_cast<float*>(worker.workspace + kernel_bytes_) + gates_floats() + 4 * d * state();
    return {all, all + 2 * state(), all + 3 * state()};
  }

  /// All steps of a part; `shared` with other workers, who have the other groups of the same rows.
  void steps(const Part& part, std::byte* const* inputs, std::byte* const* outputs, const Worker& worker,
             bool shared) const {
    const int64_t d = part.direction, from = part.first_row * layer_.hidden;
    const States states = states_of(worker, d);
    const auto given = [&](bool there, size_t at) {
      return there ? reinterpret_cast<const float*>(inputs[at]) + d * state() : nullptr;
    };
    if (layer_.gates == 4) {
      const float* const first = given(layer_.initial_c, layer_.first_cell);
      each_row(part, [&](int64_t at, int64_t many) {
        if (first) std::copy_n(first + at, many, states.cell + at);
        else std::fill_n(states.cell + at, many, 0.f);
      });
    }
    const float* last = given(layer_.initial_h, layer_.first);
    for (int64_t step = 0; step < layer_.sequence; ++step) {
      const int64_t t = layer_.time(d, step);
      float* const next = outputs[0] ? reinterpret_cast<float*>(outputs[0]) + (t * layer_.directions + d) * state()
                                     : states.turns + step % 2 * state();
      CellRows rows{part.last_row - part.first_row, nullptr, 0,           nullptr,           0,
                    last ? last + from : nullptr,   nullptr, next + from, states.cell + from};
      rows.last = rows.state;
      rows.backwards = step % 2 != 0;  // begins with weights that the step before has left in the cache
      const size_t cells = cells_.size() / static_cast<size_t>(layer_.directions);
      for (size_t at = 0; at < cells; ++at) {
        if (cells > 1) rows.next = (at == 0 ? states.masked : next) + from;
        if (at > 0 && last) rows.state = states.masked + from;
        multiply(cells_[static_cast<size_t>(d) * cells + at], part, t, rows, inputs, worker);
        if (shared) worker.sync();
      }
      last = next;
    }
    each_row(part, [&](int64_t at, int64_t many) {
      const auto give = [&](size_t output, const float* values) {
        if (output < outputs_ && outputs[output])
          std::copy_n(values + at, many, reinterpret_cast<float*>(outputs[output]) + d * state() + at);
      };
      give(1, last), give(2, states.cell);
    });
  }
  void multiply(const PackedCell& cell, const Part& part, int64_t t, CellRows rows, std::byte* const* inputs,
                const Worker& worker) const {
    if (part.first_group == part.last_group) return;
    const int64_t row = t * layer_.batch + part.first_row, d = part.direction;
    const auto* const x = reinterpret_cast<const float*>(inputs[0]);
    if (joined_) {
      rows.x = x + row * layer_.inputs, rows.x_pitch = layer_.inputs;
    } else {
      rows.added_pitch = layer_.projected ? layer_.directions * layer_.rows() : layer_.rows();
      rows.added = (layer_.projected ? x + d * layer_.rows() : gates_of(worker, d)) + row * rows.added_pitch +
                   cell.first_gate * layer_.hidden;
    }
    const CellWeights weights{
        cell.cell, curve_of(d), joined_ ? layer_.inputs : 0, layer_.hidden, floats_of(*cell.packed), cell.bias.data()};
    ops_.step(weights, rows, part.first_group, part.last_group);
  }
  /// Calls f(first, count) for the units of each row of a part.
  template <class F>
  void each_row(const Part& part, const F& f) const {
    const int64_t begin = part.first_group * ops_.lanes, end = std::min(part.last_group * ops_.lanes, layer_.hidden);
    for (int64_t row = part.first_row; row < part.last_row && begin < end; ++row)
      f(row * layer_.hidden + begin, end - begin);
  }

  Layer layer_;
  const CellOps& ops_;
  bool joined_;
  int64_t blocks_, groups_;
  size_t outputs_, kernel_bytes_ = 0;
  std::vector<std::unique_ptr<RowProduct>> in_;
  std::vector<PackedCell> cells_;  // by direction
};

}  // namespace

std::unique_ptr<backends::Step> make_cells(const Problem& problem, const Layer& layer) {
  auto step = std::make_unique<CellSteps>(problem, layer);
  return step->complete() ? std::move(step) : nullptr;
}

}  // namespace tenon::cpu::recurrent
