// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrent.h"

namespace tenon::ops::gru {
namespace {

/// Gates in the order update, reset, hidden.
void evaluate(Evaluation& ctx) {
  const bool after = ctx.node().integer("linear_before_reset", 0) != 0;
  run_recurrent(ctx, 3, 2, {"Sigmoid", "Tanh"},
                [after](const Cell& cell, const double* x, std::vector<double>& h, std::vector<double>&) {
    const int64_t n = cell.hidden;
    const std::vector<double> old = h;
    std::vector<double> reset(n), gated(n);
    for (int64_t i = 0; i < n; ++i) {
      reset[i] = cell.curve(0, cell.in(n + i, x) + cell.back(n + i, old.data()));
      gated[i] = reset[i] * old[i];
    }
    for (int64_t i = 0; i < n; ++i) {
      const double update = cell.curve(0, cell.in(i, x) + cell.back(i, old.data()));
      const double recurrence =
          after ? reset[i] * cell.back(2 * n + i, old.data()) : cell.back(2 * n + i, gated.data());
      const double fresh = cell.curve(1, cell.in(2 * n + i, x) + recurrence);
      h[i] = (1 - update) * fresh + update * old[i];
    }
  });
}

TENON_OP(
    "GRU", 3, 6, 0, 2, [](Inference& ctx) { infer_recurrent(ctx, 3); }, evaluate,
    recurrent_attributes() +
        AttributeDefs{attr::flag("linear_before_reset").from(3), attr::flag("output_sequence").up_to(6)});

}  // namespace
}  // namespace tenon::ops::gru
