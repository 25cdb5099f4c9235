// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/cells.h"
#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/gate.h"
#include "backends/cpu/kernels/f32/micro.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

// Sums that registers hold beside a step's weights and one number of a row.
constexpr int kMostSums = kLanes == 16 ? 24 : 12;
// Gates multiplied together: an LSTM's two by two where that leaves room for more rows to each weight.
template <Cell kCell, int R>
constexpr int kTogether = kCell != Cell::lstm           ? cell_gates(kCell)
                          : R <= (kLanes == 16 ? 6 : 2) ? 4
                                                        : 2;
template <Cell kCell>
constexpr int kMostRows = kCell == Cell::lstm  ? kMostSums / 2
                          : kCell == Cell::gru ? kMostSums / 3
                                               : 6;
// Groups side by side: few rows alone would wait for their own sums.
template <Cell kCell, int R>
constexpr int kGroupsOf = kCell == Cell::rnn                      ? kMostSums / 6
                          : 2 * R* cell_gates(kCell) <= kMostSums ? 2
                                                                  : 1;

TENON_INLINE Vec read(const float* p, int n) { return n == kLanes ? load(p) : load_n(p, n); }
TENON_INLINE void write(float* p, Vec v, int n) {
  if (n == kLanes) store(p, v);
  else store_n(p, v, n);
}
TENON_INLINE Vec sigmoid(Vec x) { return expr::Sigmoid::apply(Value(x)).v; }
TENON_INLINE Vec curve_of(expr::Id id, Vec x) {
  return id == expr::Id::Tanh ? tanh(x) : id == expr::Id::Sigmoid ? sigmoid(x) : expr::Relu::apply(Value(x)).v;
}

// Rows of the batch times `length` weights of G groups, which lie `pitch` apart: kMany gates of kGates.
template <int kGates, int kMany, int G, int R>
TENON_INLINE void multiply(Vec (&sums)[R][G * kMany], const float* const (&rows)[R], int64_t length, const float* b,
                           int64_t pitch) {
  const auto step = [&](int64_t k) __attribute__((always_inline)) {
    Vec w[G * kMany];
    TENON_UNROLL
    for (int i = 0; i < G * kMany; ++i) {
      const float* from = b + i / kMany * pitch + i % kMany * kLanes;
      if (R <= 3 && i % kMany * kLanes % 16 == 0) _mm_prefetch((const char*)from + 1024, _MM_HINT_T0);
      w[i] = load(from);
    }
    TENON_UNROLL
    for (int row = 0; row < R; ++row) {
      const Vec x = set1(rows[row][k]);
      TENON_UNROLL
      for (int i = 0; i < G * kMany; ++i) add_product(sums[row][i], x, w[i]);
    }
    b += kGates * kLanes;
  };
  int64_t k = 0;
  for (; k + 2 <= length; k += 2) step(k), step(k + 1);
  if (k < length) step(k);
}

template <Cell kCell>
constexpr int kStages = kCell == Cell::lstm  ? 3
                        : kCell == Cell::gru ? 2
                                             : 1;

// A row's new state in the units from `first` on, of its sums [bias][lane]: a stage of it, as a row's steps wait for
// each other and more rows run beside each other where these are few.
template <Cell kCell, int kStage>
TENON_INLINE void finish(const CellWeights& weights, const CellRows& all, int64_t row, int64_t first, float* sums,
                         const float* bias) {
  const int64_t hidden = weights.hidden, at = row * hidden + first;
  const int n = hidden - first < kLanes ? (int)(hidden - first) : kLanes;
  const float* added = all.added ? all.added + row * all.added_pitch + first : nullptr;
  const auto gate = [&](int i) __attribute__((always_inline)) {
    const Vec v = add(load(sums + i * kLanes), load(bias + i * kLanes));
    return added ? add(v, read(added + i * hidden, n)) : v;
  };
  const auto ready = [&](int i) __attribute__((always_inline)) { return load(sums + i * kLanes); };
  const auto keep = [&](int i, Vec v) __attribute__((always_inline)) { store(sums + i * kLanes, v); };
  if constexpr (kCell == Cell::lstm && kStage == 0) {  // i, o, f, c
    keep(2, sigmoid(gate(2)));
  } else if constexpr (kCell == Cell::lstm && kStage == 1) {
    keep(3, gate_of(gate(3), gate(0)));
  } else if constexpr (kCell == Cell::lstm) {
    const Vec c = add(mul(read(all.cell + at, n), ready(2)), ready(3));
    write(all.cell + at, c, n);
    write(all.next + at, gate_of(c, gate(1)), n);
  } else if constexpr (kCell == Cell::gru && kStage == 0) {  // z, r, h: h = h~ + z (h - h~)
    keep(0, sigmoid(gate(0)));
    keep(1, sigmoid(gate(1)));
  } else if constexpr (kCell == Cell::gru) {
    const Vec back = add(ready(3), load(bias + 3 * kLanes)), g = tanh(add(mul(back, ready(1)), gate(2)));
    const Vec h = all.last ? read(all.last + at, n) : zero();
    write(all.next + at, add(mul(sub(h, g), ready(0)), g), n);
  } else if constexpr (kCell == Cell::gru_gates) {
    write(all.cell + at, sigmoid(gate(0)), n);
    if (all.last) write(all.next + at, mul(read(all.last + at, n), sigmoid(gate(1))), n);
  } else if constexpr (kCell == Cell::gru_candidate) {
    const Vec g = tanh(gate(0)), h = all.last ? read(all.last + at, n) : zero();
    write(all.next + at, add(mul(sub(h, g), read(all.cell + at, n)), g), n);
  } else {
    write(all.next + at, curve_of(weights.curve, gate(0)), n);
  }
}

// Sums of R rows and G groups, [row][group][bias][lane], of the gates from `gate` on.
template <Cell kCell, int G, int R>
TENON_INLINE void sums_of(const CellWeights& weights, const CellRows& all, int64_t first, const float* b, int gate,
                          float* results) {
  constexpr int kGates = cell_gates(kCell), kBiases = cell_biases(kCell), kMany = kTogether<kCell, R>;
  const int64_t step = kGates * kLanes, pitch = (weights.inputs + weights.hidden) * step;
  Vec sums[R][G * kMany];
  const float* rows[R];
  const auto keep = [&](int which, int to) __attribute__((always_inline)) {
    TENON_UNROLL
    for (int row = 0; row < R; ++row) {
      TENON_UNROLL
      for (int g = 0; g < G; ++g)
        store(results + ((row * G + g) * kBiases + to) * kLanes, sums[row][g * kMany + which]);
    }
  };
  const auto clear = [&](int from) __attribute__((always_inline)) {
    TENON_UNROLL
    for (int row = 0; row < R; ++row) {
      TENON_UNROLL
      for (int i = 0; i < G * kMany; ++i)
        if (i % kMany >= from) sums[row][i] = zero();
    }
  };
  clear(0);
  if (weights.inputs) {
    TENON_UNROLL
    for (int row = 0; row < R; ++row) rows[row] = all.x + (first + row) * all.x_pitch;
    multiply<kGates, kMany, G, R>(sums, rows, weights.inputs, b, pitch);
  }
  if (kCell == Cell::gru) keep(2, 2), clear(2);
  if (all.state) {
    TENON_UNROLL
    for (int row = 0; row < R; ++row) rows[row] = all.state + (first + row) * weights.hidden;
    multiply<kGates, kMany, G, R>(sums, rows, weights.hidden, b + weights.inputs * step, pitch);
  }
  TENON_UNROLL
  for (int i = 0; i < kMany; ++i) keep(i, kCell == Cell::gru && i == 2 ? 3 : gate + i);
}

// What finish() reads lies in lines far apart: they come while products are made.
template <Cell kCell, int G, int R>
TENON_INLINE void fetch(const CellWeights& weights, const CellRows& all, int64_t first, int64_t unit) {
  for (int row = 0; row < R; ++row) {
    for (int g = 0; g < G; ++g, unit += kLanes) {
      const int64_t at = first + row;
      for (int gate = 0; all.added && gate < cell_gates(kCell); ++gate)
        _mm_prefetch((const char*)(all.added + at * all.added_pitch + gate * weights.hidden + unit), _MM_HINT_T0);
      if (kCell == Cell::lstm || kCell == Cell::gru_candidate)
        _mm_prefetch((const char*)(all.cell + at * weights.hidden + unit), _MM_HINT_T0);
    }
    unit -= G * kLanes;
  }
}

template <Cell kCell, int G, int R>
__attribute__((noinline)) void tile(const CellWeights& weights, const CellRows& all, int64_t first, int64_t group) {
  constexpr int kGates = cell_gates(kCell), kBiases = cell_biases(kCell);
  const float* b = weights.packed + group * (weights.inputs + weights.hidden) * kGates * kLanes;
  alignas(64) float results[R * G * kBiases * kLanes];
  if (R > 3) fetch<kCell, G, R>(weights, all, first, group * kLanes);
  for (int gate = 0; gate < kGates; gate += kTogether<kCell, R>)
    sums_of<kCell, G, R>(weights, all, first, b + gate * kLanes, gate, results);
  const auto stage = [&]<int kStage>() __attribute__((always_inline)) {
    for (int at = 0; at < R * G; ++at)
      finish<kCell, kStage>(weights, all, first + at / G, (group + at % G) * kLanes, results + at * kBiases * kLanes,
                            weights.bias + (group + at % G) * kBiases * kLanes);
  };
  stage.template operator()<0>();
  if constexpr (kStages < kCell >> 1) stage.template operator()<1>();
  if constexpr (kStages < kCell >> 2) stage.template operator()<2>();
}

template <Cell kCell>
void step_of(const CellWeights& weights, const CellRows& all, int64_t begin, int64_t end) {
  constexpr int kRows = kMostRows<kCell>;
  const int64_t tiles = (all.rows + kRows - 1) / kRows;
  const int most = (int)((all.rows + tiles - 1) / tiles);
  // Groups that pass over all rows together, as many as the tallest tile holds sums of.
  int64_t together = 1;
  with_rows<kRows>(
      most, [&]<int R>() __attribute__((always_inline)) { together = kGroupsOf<kCell, R>; });
  const int64_t whole = (end - begin) / together, rounds = whole + (end - begin) % together;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t at = all.backwards ? rounds - 1 - round : round;
    const int64_t group = begin + (at < whole ? at * together : at + whole * (together - 1));
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t first = all.rows * t / tiles;
      with_rows<kRows>((int)(all.rows * (t + 1) / tiles - first), [&]<int R>() __attribute__((always_inline)) {
        if (at >= whole || together == 1) tile<kCell, 1, R>(weights, all, first, group);
        else tile<kCell, kGroupsOf<kCell, R>, R>(weights, all, first, group);
      });
    }
  }
}

void step(const CellWeights& weights, const CellRows& rows, int64_t begin, int64_t end) {
  switch (weights.cell) {
    case Cell::lstm: return step_of<Cell::lstm>(weights, rows, begin, end);
    case Cell::gru: return step_of<Cell::gru>(weights, rows, begin, end);
    case Cell::gru_gates: return step_of<Cell::gru_gates>(weights, rows, begin, end);
    case Cell::gru_candidate: return step_of<Cell::gru_candidate>(weights, rows, begin, end);
    case Cell::rnn: return step_of<Cell::rnn>(weights, rows, begin, end);
  }
}

}  // namespace

extern const CellOps cell_ops;
const CellOps cell_ops = {kLanes, step};

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu
