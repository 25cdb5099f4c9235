// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/window.h"

/// What LSTM, GRU and RNN share: sizes, activations, directions and sequence lengths.
namespace tenon::ops {

inline AttributeDefs recurrent_attributes() {
  return {attr::reals("activation_alpha"),
          attr::reals("activation_beta"),
          attr::texts("activations"),
          attr::real("clip"),
          attr::text("direction").one_of({"forward", "reverse", "bidirectional"}),
          attr::integer("hidden_size").at_least(1),
          attr::flag("layout").from(14)};
}

struct RecurrentSizes {
  ir::Dim sequence, batch, input, hidden;
  int64_t directions = 1;
  bool batch_first = false;
  ir::Shape y, y_h;
};

template <class Context>
RecurrentSizes size_recurrent(Context& ctx, int64_t gates, const ir::Shape& x, const ir::Shape& w, const ir::Shape& r) {
  const ir::Node& node = ctx.node();
  RecurrentSizes sizes;
  const std::string direction = node.text("direction", "forward");
  if (direction == "bidirectional") sizes.directions = 2;
  else if (direction != "forward" && direction != "reverse") ctx.fail("direction is \"" + direction + "\"");
  sizes.batch_first = node.integer("layout", 0) != 0;
  if (x.size() != 3 || w.size() != 3 || r.size() != 3) ctx.fail("X, W and R must be of rank 3");
  sizes.sequence = x[sizes.batch_first ? 1 : 0];
  sizes.batch = x[sizes.batch_first ? 0 : 1];
  sizes.input = x[2];
  sizes.hidden = r[2];
  if (const int64_t hidden = node.integer("hidden_size", 0); hidden > 0 && differ(sizes.hidden, hidden))
    ctx.fail("hidden_size is " + std::to_string(hidden) + " where R has " + sizes.hidden.str());
  const ir::Dim rows = sizes.hidden * gates;
  if (differ(w[0], sizes.directions) || differ(w[1], rows) || differ(w[2], sizes.input))
    ctx.fail("W is " + ir::str(w) + " where " + ir::str({sizes.directions, rows, sizes.input}) + " is needed");
  if (differ(r[0], sizes.directions) || differ(r[1], rows))
    ctx.fail("R is " + ir::str(r) + " where " + ir::str({sizes.directions, rows, sizes.hidden}) + " is needed");
  if (sizes.batch_first) {
    sizes.y = {sizes.batch, sizes.sequence, sizes.directions, sizes.hidden};
    sizes.y_h = {sizes.batch, sizes.directions, sizes.hidden};
  } else {
    sizes.y = {sizes.sequence, sizes.directions, sizes.batch, sizes.hidden};
    sizes.y_h = {sizes.directions, sizes.batch, sizes.hidden};
  }
  return sizes;
}

/// Biases, lengths, states and peepholes.
inline void want_parameters(const Inference& ctx, int64_t gates, const RecurrentSizes& sizes) {
  const ir::Dim directions(sizes.directions), states = directions * sizes.batch * sizes.hidden;
  const auto want = [&](size_t input, const ir::Dim& count, const char* what) {
    if (count.is_constant()) want_elements(ctx, input, count.value(), what);
  };
  want(3, directions * ir::Dim(2 * gates) * sizes.hidden, "B");
  want_integers(ctx, 4, "sequence_lens");
  want(4, sizes.batch, "sequence_lens");
  want(5, states, "initial_h");
  if (gates != 4) return;
  want(6, states, "initial_c");
  want(7, directions * ir::Dim(3) * sizes.hidden, "P");
}

/// What steps read has three axes, also where nothing else is known of it. The first state, an input, may tell one.
inline ir::Shape inputs_of_steps(Inference& ctx, const ir::Dim& last, size_t first, bool batch_first) {
  const ir::Dim sequence = tagged_unknown(ctx, "sequence");
  const ir::Shape* state = first < ctx.inputs() ? ctx.shape(first) : nullptr;
  const bool tells = state && state->size() == 3;
  const ir::Dim batch = tells ? (*state)[batch_first ? 0 : 1] : tagged_unknown(ctx, "batch");
  return batch_first ? ir::Shape{batch, sequence, last} : ir::Shape{sequence, batch, last};
}

inline void infer_recurrent(Inference& ctx, int64_t gates) {
  const ir::Shape *x = ctx.shape(0), *w = ctx.shape(1), *r = ctx.shape(2);
  ir::Shape assumed;
  if (!x && w && r && w->size() == 3) {
    assumed = inputs_of_steps(ctx, (*w)[2], 5, ctx.node().integer("layout", 0) != 0);
    x = &assumed;
  }
  std::optional<ir::Shape> y, state;
  if (x && w && r) {
    const RecurrentSizes sizes = size_recurrent(ctx, gates, *x, *w, *r);
    want_parameters(ctx, gates, sizes);
    y = sizes.y;
    state = sizes.y_h;
  }
  ctx.set(0, ctx.dtype(0), y);
  for (size_t output = 1; output < ctx.outputs(); ++output) ctx.set(output, ctx.dtype(0), state);
}

using Curve = std::function<double(double)>;

/// The activations of all directions, `count` for each. Alphas and betas are handed out, in order, to those that take
/// one.
template <class Context>
std::vector<Curve> read_curves(Context& ctx, size_t count, size_t directions, std::vector<std::string> defaults) {
  std::vector<std::string> names = defaults;
  if (directions == 2) names.insert(names.end(), defaults.begin(), defaults.end());
  if (ctx.node().has("activations"))
    names = std::get<std::vector<std::string>>(ctx.node().attributes.at("activations"));
  if (names.size() != count * directions)
    ctx.fail("activations has " + counted(names.size(), "entry") + " where " + std::to_string(count * directions) +
             " are needed");
  const std::vector<float> alphas = ctx.node().reals("activation_alpha"), betas = ctx.node().reals("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  const auto alpha = [&](double otherwise) {
    return next_alpha < alphas.size() ? double(alphas[next_alpha++]) : otherwise;
  };
  const auto beta = [&](double otherwise) { return next_beta < betas.size() ? double(betas[next_beta++]) : otherwise; };
  std::vector<Curve> curves;
  for (std::string name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "tanh") curves.push_back([](double x) { return std::tanh(x); });
    else if (name == "sigmoid") curves.push_back([](double x) { return 1 / (1 + std::exp(-x)); });
    else if (name == "relu") curves.push_back([](double x) { return x < 0 ? 0 : x; });
    else if (name == "softsign") curves.push_back([](double x) { return x / (1 + std::fabs(x)); });
    else if (name == "softplus") curves.push_back([](double x) { return x > 30 ? x : std::log1p(std::exp(x)); });
    else if (name == "affine") curves.push_back([a = alpha(1), b = beta(0)](double x) { return a * x + b; });
    else if (name == "leakyrelu") curves.push_back([a = alpha(0.01)](double x) { return x < 0 ? a * x : x; });
    else if (name == "thresholdedrelu") curves.push_back([a = alpha(1)](double x) { return x > a ? x : 0; });
    else if (name == "scaledtanh")
      curves.push_back([a = alpha(1), b = beta(1)](double x) { return a * std::tanh(b * x); });
    else if (name == "hardsigmoid")
      curves.push_back([a = alpha(0.2), b = beta(0.5)](double x) { return std::clamp(a * x + b, 0.0, 1.0); });
    else if (name == "elu") curves.push_back([a = alpha(1)](double x) { return x < 0 ? a * std::expm1(x) : x; });
    else ctx.fail("activation \"" + name + "\" is not known");
  }
  return curves;
}

/// One direction of the parameters while it runs; all rows are of length `hidden`.
struct Cell {
  int64_t hidden, input;
  const double *w, *r, *wb, *rb, *p;  // gates x hidden rows; p is peepholes, nullptr where absent
  const Curve* curves;
  double clip;
  double curve(size_t at, double x) const { return curves[at](clip > 0 ? std::clamp(x, -clip, clip) : x); }
  /// Row `at` of W x + wb, and of R h + rb.
  double in(int64_t at, const double* x) const {
    double sum = wb ? wb[at] : 0;
    for (int64_t i = 0; i < input; ++i) sum += w[at * input + i] * x[i];
    return sum;
  }
  double back(int64_t at, const double* h) const {
    double sum = rb ? rb[at] : 0;
    for (int64_t i = 0; i < hidden; ++i) sum += r[at * hidden + i] * h[i];
    return sum;
  }
};

/// An output that is wanted, rounded to its type.
inline void store_reals(Evaluation& ctx, size_t output, DType dtype, const Dims& dims,
                        const std::vector<double>& list) {
  if (!ctx.wants(output)) return;
  Tensor& tensor = ctx.output(output, dtype, dims);
  dispatch<Floats>(ctx, dtype, [&]<class T>(Type<T>) {
    for (size_t i = 0; i < list.size(); ++i) tensor.data<T>()[i] = rounded<T>(list[i]);
  });
}

/// step(cell, x, h, c) turns the states into those after one input.
template <class Step>
void run_recurrent(Evaluation& ctx, int64_t gates, size_t curve_count, std::vector<std::string> default_curves,
                   Step&& step) {
  const DType dtype = ctx.input(0).dtype();
  const RecurrentSizes sizes = size_recurrent(ctx, gates, shape_of(ctx.input(0).dims()), shape_of(ctx.input(1).dims()),
                                              shape_of(ctx.input(2).dims()));
  const int64_t sequence = sizes.sequence.value(), batch = sizes.batch.value(), input = sizes.input.value();
  const int64_t hidden = sizes.hidden.value(), directions = sizes.directions, rows = gates * hidden;
  const auto optional = [&](size_t at, int64_t count, const char* what) {
    if (!ctx.has(at)) return std::vector<double>();
    std::vector<double> list = reals(ctx, ctx.input(at));
    if (static_cast<int64_t>(list.size()) != count)
      ctx.fail(std::string(what) + " has " + counted(list.size(), "element") + " where " + std::to_string(count) +
               " are needed");
    return list;
  };
  const std::vector<double> x = reals(ctx, ctx.input(0)), w = reals(ctx, ctx.input(1)), r = reals(ctx, ctx.input(2));
  const std::vector<double> b = optional(3, directions * 2 * rows, "B");
  const std::vector<double> h0 = optional(5, directions * batch * hidden, "initial_h");
  const bool lstm = gates == 4;
  const std::vector<double> c0 = lstm ? optional(6, directions * batch * hidden, "initial_c") : std::vector<double>();
  const std::vector<double> p = lstm ? optional(7, directions * 3 * hidden, "P") : std::vector<double>();
  const std::vector<Curve> curves =
      read_curves(ctx, curve_count, static_cast<size_t>(directions), std::move(default_curves));
  std::vector<int64_t> lengths(static_cast<size_t>(batch), sequence);
  if (ctx.has(4)) {
    lengths = ctx.integers(4);
    if (static_cast<int64_t>(lengths.size()) != batch) ctx.fail("sequence_lens must have one entry per batch entry");
    for (int64_t length : lengths)
      if (length < 0 || length > sequence)
        ctx.fail("a sequence length is " + std::to_string(length) + " of " + std::to_string(sequence));
  }
  const bool reverse = ctx.node().text("direction", "forward") == "reverse";
  const auto state_at = [&](int64_t d, int64_t n) {
    return (sizes.batch_first ? n * directions + d : d * batch + n) * hidden;
  };
  const Dims y_dims = dims_of(sizes.y), state_dims = dims_of(sizes.y_h);
  std::vector<double> y(y_dims.elements()), y_h(state_dims.elements()), y_c(state_dims.elements());
  for (int64_t d = 0; d < directions; ++d) {
    const Cell cell{hidden,
                    input,
                    w.data() + d * rows * input,
                    r.data() + d * rows * hidden,
                    b.empty() ? nullptr : b.data() + d * 2 * rows,
                    b.empty() ? nullptr : b.data() + (d * 2 + 1) * rows,
                    p.empty() ? nullptr : p.data() + d * 3 * hidden,
                    curves.data() + d * curve_count,
                    ctx.node().real("clip", 0)};
    for (int64_t n = 0; n < batch; ++n) {
      std::vector<double> h(hidden), c(hidden);
      if (!h0.empty()) std::copy_n(h0.begin() + state_at(d, n), hidden, h.begin());
      if (!c0.empty()) std::copy_n(c0.begin() + state_at(d, n), hidden, c.begin());
      for (int64_t t = 0; t < lengths[n]; ++t) {
        const int64_t at = reverse || d == 1 ? lengths[n] - 1 - t : t;
        step(cell, x.data() + (sizes.batch_first ? n * sequence + at : at * batch + n) * input, h, c);
        const int64_t to = sizes.batch_first ? (n * sequence + at) * directions + d : (at * directions + d) * batch + n;
        std::copy(h.begin(), h.end(), y.begin() + to * hidden);
      }
      std::copy(h.begin(), h.end(), y_h.begin() + state_at(d, n));
      std::copy(c.begin(), c.end(), y_c.begin() + state_at(d, n));
    }
  }
  store_reals(ctx, 0, dtype, y_dims, y);
  store_reals(ctx, 1, dtype, state_dims, y_h);
  if (lstm) store_reals(ctx, 2, dtype, state_dims, y_c);
}

}  // namespace tenon::ops
