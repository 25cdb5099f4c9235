// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/broadcast.h"
#include "ops/floats.h"

namespace tenon::ops::lp_normalization {
namespace {

/// Internal: `epsilon` (0), the least that numbers are divided by.
int64_t read_p(const ir::Node& node) { return node.integer("p", 2); }

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  if (read_p(ctx.node()) != 1 && read_p(ctx.node()) != 2) ctx.fail("p is neither 1 nor 2");
  if (x) normal_axis(ctx, ctx.node().integer("axis", -1), x->size());
  ctx.set(0, ctx.dtype(0), x ? std::optional(*x) : std::nullopt);
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t p = read_p(ctx.node());
  const double epsilon = ctx.node().real("epsilon", 0);
  const Around parts = around(x.dims(), normal_axis(ctx, ctx.node().integer("axis", -1), x.dims().rank()));
  Tensor& y = ctx.output(0, x.dtype(), x.dims());
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    for (int64_t outer = 0; outer < parts.outer; ++outer)
      for (int64_t inner = 0; inner < parts.inner; ++inner) {
        const int64_t start = outer * parts.size * parts.inner + inner;
        double sum = 0;
        for (int64_t i = 0; i < parts.size; ++i) {
          const double value = x.data<T>()[start + i * parts.inner];
          sum += p == 1 ? std::fabs(value) : value * value;
        }
        const double norm = std::max(p == 1 ? sum : std::sqrt(sum), epsilon);
        for (int64_t i = 0; i < parts.size; ++i) {
          const int64_t at = start + i * parts.inner;
          y.data<T>()[at] = rounded<T>(norm == 0 ? 0 : static_cast<double>(x.data<T>()[at]) / norm);
        }
      }
  });
}

TENON_OP("LpNormalization", 1, 1, 1, 1, infer, evaluate,
         {attr::integer("axis"), attr::integer("p").between(1, 2), attr::real("epsilon").internal()},
         Trait::same_type | Trait::same_rank | Trait::half);

}  // namespace
}  // namespace tenon::ops::lp_normalization
