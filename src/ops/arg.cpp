// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::arg {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, DType::i64, std::nullopt);
  ir::Shape to = *from;
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), to.size());
  if (ctx.node().integer("keepdims", 1)) to[axis] = 1;
  else to.erase(to.begin() + static_cast<std::ptrdiff_t>(axis));
  ctx.set(0, DType::i64, std::move(to));
}

/// `better(candidate, best)`; the first NaN wins over all.
template <auto better>
void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), x.dims().rank());
  const bool last = ctx.node().integer("select_last_index", 0);
  const Around all = around(x.dims(), axis);
  if (all.size == 0) ctx.fail("the axis is empty");
  Dims dims = x.dims();
  dims[axis] = 1;
  if (!ctx.node().integer("keepdims", 1)) dims.erase(axis);
  dispatch<Numbers>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    int64_t* to = ctx.output(0, DType::i64, dims).data<int64_t>();
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t inner = 0; inner < all.inner; ++inner) {
        const T* line = x.data<T>() + outer * all.size * all.inner + inner;
        int64_t best = 0;
        for (int64_t i = 1; i < all.size; ++i) {
          const Wide<T> value = line[i * all.inner], top = line[best * all.inner];
          if (top != top ? last && value != value : value != value || better(value, top) || (last && value == top))
            best = i;
        }
        to[outer * all.inner + inner] = best;
      }
  });
}

constexpr auto larger = [](auto a, auto b) { return a > b; };
constexpr auto smaller = [](auto a, auto b) { return a < b; };

TENON_OP("ArgMax", 1, 1, 1, 1, infer, evaluate<larger>,
         {attr::integer("axis"), attr::flag("keepdims"), attr::flag("select_last_index").from(12)}, Reduction::largest);
TENON_OP("ArgMin", 1, 1, 1, 1, infer, evaluate<smaller>,
         {attr::integer("axis"), attr::flag("keepdims"), attr::flag("select_last_index").from(12)},
         Reduction::smallest);

}  // namespace
}  // namespace tenon::ops::arg
