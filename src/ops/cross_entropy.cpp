// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/counted.h"
#include "ops/floats.h"
#include "ops/window.h"

namespace tenon::ops::cross_entropy {
namespace {

enum class Reduction { none, sum, mean };

template <class Context>
Reduction read_reduction(Context& ctx) {
  const std::string word = ctx.node().text("reduction", "mean");
  if (word == "none") return Reduction::none;
  if (word == "sum") return Reduction::sum;
  if (word != "mean") ctx.fail("reduction is \"" + word + "\"");
  return Reduction::mean;
}

/// Scores are N, C, d…; targets N, d….
template <class Context>
ir::Shape loss_shape(Context& ctx, const ir::Shape& x, const ir::Shape& target) {
  bool fits = x.size() >= 2 && target.size() + 1 == x.size() && !differ(x[0], target[0]);
  for (size_t axis = 2; fits && axis < x.size(); ++axis) fits = !differ(x[axis], target[axis - 1]);
  if (!fits) ctx.fail("scores " + ir::str(x) + " and targets " + ir::str(target) + " do not fit");
  return read_reduction(ctx) == Reduction::none ? target : ir::Shape{};
}

void infer_loss(Inference& ctx) {
  const ir::Shape *x = ctx.shape(0), *target = ctx.shape(1);
  std::optional<ir::Shape> output;
  if (x && target) output = loss_shape(ctx, *x, *target);
  else if (read_reduction(ctx) != Reduction::none) output = ir::Shape{};
  ctx.set(0, ctx.dtype(0), output);
  if (ctx.outputs() > 1) ctx.set(1, ctx.dtype(0), x ? std::optional(*x) : std::nullopt);
}

/// Logarithm of the softmax over axis 1.
void log_softmax(std::vector<double>& x, int64_t batch, int64_t classes, int64_t inner) {
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t i = 0; i < inner; ++i) {
      double* from = x.data() + n * classes * inner + i;
      double largest = -INFINITY, sum = 0;
      for (int64_t c = 0; c < classes; ++c) largest = std::max(largest, from[c * inner]);
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(from[c * inner] - largest);
      for (int64_t c = 0; c < classes; ++c) from[c * inner] -= largest + std::log(sum);
    }
}

void store(Evaluation& ctx, size_t at, DType type, const Dims& dims, const std::vector<double>& list) {
  Tensor& tensor = ctx.output(at, type, dims);
  dispatch<Floats>(ctx, type, [&]<class T>(Type<T>) {
    for (size_t i = 0; i < list.size(); ++i) tensor.data<T>()[i] = rounded<T>(list[i]);
  });
}

template <bool scores>
void evaluate_loss(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Dims out = dims_of(loss_shape(ctx, shape_of(x.dims()), shape_of(ctx.input(1).dims())));
  const Reduction reduction = read_reduction(ctx);
  const std::vector<int64_t> targets = ctx.integers(1);
  const int64_t batch = x.dims()[0], classes = x.dims()[1], inner = x.elements() ? x.elements() / batch / classes : 1;
  std::vector<double> logs = reals(ctx, x), weights(static_cast<size_t>(classes), 1.0);
  if (scores) log_softmax(logs, batch, classes, inner);
  if (ctx.has(2)) weights = reals(ctx, ctx.input(2));
  if (static_cast<int64_t>(weights.size()) != classes)
    ctx.fail("the weights do not fit the " + counted(classes, "class"));
  const bool ignores = ctx.node().has("ignore_index");
  const int64_t ignored = ctx.node().integer("ignore_index", 0);
  std::vector<double> losses(targets.size());
  double sum = 0, mass = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (ignores && targets[i] == ignored) continue;
    if (targets[i] < 0 || targets[i] >= classes)
      ctx.fail("a target is class " + std::to_string(targets[i]) + " of " + std::to_string(classes));
    const auto n = static_cast<int64_t>(i) / inner, at = static_cast<int64_t>(i) % inner;
    const double weight = weights[static_cast<size_t>(targets[i])];
    losses[i] = -weight * logs[static_cast<size_t>((n * classes + targets[i]) * inner + at)];
    sum += losses[i];
    mass += weight;
  }
  if (reduction == Reduction::none) store(ctx, 0, x.dtype(), out, losses);
  else store(ctx, 0, x.dtype(), {}, {reduction == Reduction::mean ? sum / mass : sum});
  if (ctx.wants(1)) store(ctx, 1, x.dtype(), x.dims(), logs);
}

TENON_OP("NegativeLogLikelihoodLoss", 2, 3, 1, 1, infer_loss, evaluate_loss<false>,
         {attr::integer("ignore_index"), attr::text("reduction").one_of({"none", "sum", "mean"})});
TENON_OP("SoftmaxCrossEntropyLoss", 2, 3, 1, 2, infer_loss, evaluate_loss<true>,
         {attr::integer("ignore_index"), attr::text("reduction").one_of({"none", "sum", "mean"})});

}  // namespace
}  // namespace tenon::ops::cross_entropy
