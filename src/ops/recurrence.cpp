// SPDX-License-Identifier: Apache-2.0
#include "ops/recurrence.h"

#include <cmath>

#include "ops/recurrent.h"

namespace tenon::ops::recurrence {
namespace {

int64_t directions_of(const ir::Node& node) { return node.text("direction", "forward") == "bidirectional" ? 2 : 1; }

/// What the inputs add to the gates [sequence, batch, directions * gates * hidden], with the biases of all gates that
/// add them; R [directions, gates * hidden, hidden]; of a GRU the bias of the candidate's product [directions, hidden];
/// the first states [directions, batch, hidden].
void infer(Inference& ctx) {
  const ir::Shape *given = ctx.shape(0), *back = ctx.shape(1);
  for (size_t input = 0; input < 5; ++input) want_floats(ctx, input, "an operand");
  const ir::Dim gates(gates_of_cell(ctx.node())), directions(directions_of(ctx.node()));
  std::optional<ir::Shape> y, state;
  ir::Shape assumed;
  if (!given && back && back->size() == 3) {
    assumed = inputs_of_steps(ctx, directions * (*back)[1], 3, false);
    given = &assumed;
  }
  if (given && back) {
    if (given->size() != 3 || back->size() != 3) ctx.fail("the gates and R must be of rank 3");
    const ir::Shape &x = *given, &r = *back;
    const ir::Dim hidden = r[2], rows = gates * hidden;
    if (differ(r[0], directions) || differ(r[1], rows) || differ(x[2], directions * rows))
      ctx.fail("gates " + ir::str(x) + " and R " + ir::str(r) + " do not fit");
    state = ir::Shape{directions, x[1], hidden};
    y = ir::Shape{x[0], directions, x[1], hidden};
    const auto want = [&](size_t input, const ir::Dim& count, const char* what) {
      if (count.is_constant()) want_elements(ctx, input, count.value(), what);
    };
    want(2, directions * hidden, "the candidate's bias");
    want(3, directions * x[1] * hidden, "the first state");
    want(4, directions * x[1] * hidden, "the first state of the cell");
  }
  ctx.set(0, ctx.dtype(0), y);
  for (size_t output = 1; output < ctx.outputs(); ++output) ctx.set(output, ctx.dtype(0), state);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One unit's new state, of what the inputs (`in`) and the products of the states (`back`) give to its gates.
double next(const std::string& cell, const double* in, const double* back, double bias, double h, double& c) {
  if (cell == "GRU") {
    const double update = sigmoid(in[0] + back[0]), reset = sigmoid(in[1] + back[1]);
    return (1 - update) * std::tanh(in[2] + reset * (back[2] + bias)) + update * h;
  }
  if (cell != "LSTM") return std::tanh(in[0] + back[0]);
  c = sigmoid(in[2] + back[2]) * c + sigmoid(in[0] + back[0]) * std::tanh(in[3] + back[3]);
  return sigmoid(in[1] + back[1]) * std::tanh(c);
}

void evaluate(Evaluation& ctx) {
  const Dims x = ctx.input(0).dims(), r = ctx.input(1).dims();
  const std::string cell = ctx.node().text("cell", "LSTM");
  const int64_t gates = gates_of_cell(ctx.node()), directions = directions_of(ctx.node());
  if (x.rank() != 3 || r.rank() != 3 || r[0] != directions || r[1] != gates * r[2] || x[2] != directions * r[1])
    ctx.fail("gates " + x.str() + " and R " + r.str() + " do not fit");
  const int64_t sequence = x[0], batch = x[1], hidden = r[2], rows = gates * hidden, states = batch * hidden;
  const std::vector<double> in = reals(ctx, ctx.input(0)), weights = reals(ctx, ctx.input(1));
  const auto optional = [&](size_t at, int64_t count) {
    std::vector<double> list(static_cast<size_t>(count));
    if (!ctx.has(at)) return list;
    if (ctx.input(at).elements() != count) ctx.fail("an operand has not " + std::to_string(count) + " elements");
    return reals(ctx, ctx.input(at));
  };
  const std::vector<double> bias = optional(2, directions * hidden);
  std::vector<double> h = optional(3, directions * states), c = optional(4, directions * states);
  std::vector<double> y(static_cast<size_t>(sequence * directions * states));
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t step = 0; step < sequence; ++step) {
        const bool backwards = d == 1 || ctx.node().text("direction", "forward") == "reverse";
        const int64_t t = backwards ? sequence - 1 - step : step;
        double *const state = &h[d * states + n * hidden], *const memory = &c[d * states + n * hidden];
        const std::vector<double> old(state, state + hidden);
        for (int64_t unit = 0; unit < hidden; ++unit) {
          double given[4], back[4] = {};
          for (int64_t gate = 0; gate < gates; ++gate) {
            given[gate] = in[((t * batch + n) * directions + d) * rows + gate * hidden + unit];
            for (int64_t k = 0; k < hidden; ++k)
              back[gate] += weights[(d * rows + gate * hidden + unit) * hidden + k] * old[k];
          }
          state[unit] = next(cell, given, back, bias[d * hidden + unit], old[unit], memory[unit]);
          y[((t * directions + d) * batch + n) * hidden + unit] = state[unit];
        }
      }
  const DType type = ctx.input(0).dtype();
  store_reals(ctx, 0, type, Dims{sequence, directions, batch, hidden}, y);
  store_reals(ctx, 1, type, Dims{directions, batch, hidden}, h);
  store_reals(ctx, 2, type, Dims{directions, batch, hidden}, c);
}

TENON_OP("tenon:Recurrence", 2, 5, 0, 3, infer, evaluate,
         {attr::text("cell").one_of({"LSTM", "GRU", "RNN"}).required().internal(),
          attr::text("direction").one_of({"forward", "reverse", "bidirectional"}).internal()},
         Traits(Trait::half) | Traits::weights_at({1}));

}  // namespace
}  // namespace tenon::ops::recurrence
