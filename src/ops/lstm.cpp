// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrent.h"

namespace tenon::ops::lstm {
namespace {

/// Gates in the order input, output, forget, cell; peepholes input, output, forget.
void evaluate(Evaluation& ctx) {
  const bool coupled = ctx.node().integer("input_forget", 0) != 0;
  run_recurrent(ctx, 4, 3, {"Sigmoid", "Tanh", "Tanh"},
                [coupled](const Cell& cell, const double* x, std::vector<double>& h, std::vector<double>& c) {
    const int64_t n = cell.hidden;
    const std::vector<double> old = h;
    const auto sum = [&](int64_t gate, int64_t i) {
      return cell.in(gate * n + i, x) + cell.back(gate * n + i, old.data());
    };
    for (int64_t i = 0; i < n; ++i) {
      const double input = cell.curve(0, sum(0, i) + (cell.p ? cell.p[i] * c[i] : 0));
      const double forget = coupled ? 1 - input : cell.curve(0, sum(2, i) + (cell.p ? cell.p[2 * n + i] * c[i] : 0));
      c[i] = forget * c[i] + input * cell.curve(1, sum(3, i));
      const double output = cell.curve(0, sum(1, i) + (cell.p ? cell.p[n + i] * c[i] : 0));
      h[i] = output * cell.curves[2](c[i]);
    }
  });
}

TENON_OP(
    "LSTM", 3, 8, 0, 3, [](Inference& ctx) { infer_recurrent(ctx, 4); }, evaluate,
    recurrent_attributes() + AttributeDefs{attr::flag("input_forget"), attr::flag("output_sequence").up_to(6)});

}  // namespace
}  // namespace tenon::ops::lstm
