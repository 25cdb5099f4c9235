// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::softmax {
namespace {

void infer(Inference& ctx) {
  if (const ir::Shape* shape = ctx.shape(0)) normal_axis(ctx, ctx.node().integer("axis", -1), shape->size());
  infer_same(ctx);
}

/// Calls `line(values)` on each line along the axis, held as doubles, and stores it back.
template <class F>
void each_line(Evaluation& ctx, F&& line) {
  const Tensor& x = ctx.input(0);
  const Around all = around(x.dims(), normal_axis(ctx, ctx.node().integer("axis", -1), x.dims().rank()));
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = x.data<T>();
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    if (x.elements() == 0) return;
    std::vector<double> values(static_cast<size_t>(all.size));
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t inner = 0; inner < all.inner; ++inner) {
        const int64_t base = outer * all.size * all.inner + inner;
        for (int64_t i = 0; i < all.size; ++i) values[i] = static_cast<Wide<T>>(from[base + i * all.inner]);
        line(values);
        for (int64_t i = 0; i < all.size; ++i)
          to[base + i * all.inner] = static_cast<T>(static_cast<Wide<T>>(values[i]));
      }
  });
}

/// Takes the largest value away and returns the sum of exponentials.
double shift(std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (double& value : values) sum += std::exp(value -= largest);
  return sum;
}

void softmax(Evaluation& ctx) {
  each_line(ctx, [](std::vector<double>& values) {
    const double sum = shift(values);
    for (double& value : values) value = std::exp(value) / sum;
  });
}

void log_softmax(Evaluation& ctx) {
  each_line(ctx, [](std::vector<double>& values) {
    const double log_sum = std::log(shift(values));
    for (double& value : values) value -= log_sum;
  });
}

/// 1 at the first largest value, 0 elsewhere.
void hardmax(Evaluation& ctx) {
  each_line(ctx, [](std::vector<double>& values) {
    // The first NaN, as ArgMax has it.
    const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    const auto best = std::max_element(values.begin(), values.end(), less) - values.begin();
    std::fill(values.begin(), values.end(), 0.0);
    values[static_cast<size_t>(best)] = 1;
  });
}

TENON_OP("Softmax", 1, 1, 1, 1, infer, softmax, {attr::integer("axis")},
         Trait::same_type | Trait::same_rank | Trait::half | Trait::softmax);
TENON_OP("LogSoftmax", 1, 1, 1, 1, infer, log_softmax, {attr::integer("axis")},
         Trait::same_type | Trait::same_rank | Trait::softmax | Trait::logarithm);
TENON_OP("Hardmax", 1, 1, 1, 1, infer, hardmax, {attr::integer("axis")}, Trait::same_type | Trait::same_rank);

}  // namespace
}  // namespace tenon::ops::softmax
