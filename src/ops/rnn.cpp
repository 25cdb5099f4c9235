// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrent.h"

namespace tenon::ops::rnn {
namespace {

void evaluate(Evaluation& ctx) {
  run_recurrent(ctx, 1, 1, {"Tanh"},
                [](const Cell& cell, const double* x, std::vector<double>& h, std::vector<double>&) {
                  const std::vector<double> old = h;
                  for (int64_t i = 0; i < cell.hidden; ++i)
                    h[i] = cell.curve(0, cell.in(i, x) + cell.back(i, old.data()));
                });
}

TENON_OP(
    "RNN", 3, 6, 0, 2, [](Inference& ctx) { infer_recurrent(ctx, 1); }, evaluate,
    recurrent_attributes() + AttributeDefs{attr::flag("output_sequence").up_to(6)});

}  // namespace
}  // namespace tenon::ops::rnn
