// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::cumsum {
namespace {

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const auto axes = ctx.integers(1);
  if (axes.size() != 1) ctx.fail("the axis is not a scalar");
  const Around all = around(x.dims(), normal_axis(ctx, axes[0], x.dims().rank()));
  const bool exclusive = ctx.node().integer("exclusive", 0), reverse = ctx.node().integer("reverse", 0);
  dispatch<Numbers>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    using W = Wide<T>;
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    const T* from = x.data<T>();
    if (x.elements() == 0) return;
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t inner = 0; inner < all.inner; ++inner) {
        W sum = 0;
        for (int64_t i = 0; i < all.size; ++i) {
          const int64_t at = (outer * all.size + (reverse ? all.size - 1 - i : i)) * all.inner + inner;
          const W next = scalar::add(sum, static_cast<W>(from[at]));
          to[at] = static_cast<T>(exclusive ? sum : next);
          sum = next;
        }
      }
  });
}

TENON_OP("CumSum", 2, 2, 1, 1, infer_same, evaluate, {attr::flag("exclusive"), attr::flag("reverse")});

}  // namespace
}  // namespace tenon::ops::cumsum
