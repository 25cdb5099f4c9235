// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::topk {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) {
    ctx.set(0, ctx.dtype(0), std::nullopt);
    return ctx.set(1, DType::i64, std::nullopt);
  }
  ir::Shape to = *from;
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", -1), to.size());
  const auto k = ctx.content(1);
  if (k && k->size() == 1) {
    const ir::Dim& count = (*k)[0];
    if (count.is_constant() && (count.value() < 0 || (to[axis].is_constant() && count.value() > to[axis].value())))
      ctx.fail("k is " + count.str() + " on an axis of size " + to[axis].str());
    to[axis] = count;
  } else to[axis] = ctx.unknown();
  ctx.set(0, ctx.dtype(0), to);
  ctx.set(1, DType::i64, to);
}

/// Equal elements come in order of their index; NaN counts as the largest.
void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", -1), x.dims().rank());
  const bool largest = ctx.node().integer("largest", 1);
  const auto k = ctx.integers(1);
  const Around all = around(x.dims(), axis);
  if (k.size() != 1 || k[0] < 0 || k[0] > all.size)
    ctx.fail("k does not fit an axis of size " + std::to_string(all.size));
  const int64_t count = k[0];
  Dims dims = x.dims();
  dims[axis] = count;
  dispatch<Numbers>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* values = ctx.output(0, x.dtype(), dims).template data<T>();
    int64_t* places = ctx.wants(1) ? ctx.output(1, DType::i64, dims).data<int64_t>() : nullptr;
    if (dims.elements() == 0) return;
    const T* from = x.data<T>();
    std::vector<int64_t> order(static_cast<size_t>(all.size));
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t inner = 0; inner < all.inner; ++inner) {
        const T* line = from + outer * all.size * all.inner + inner;
        const auto above = [](Wide<T> a, Wide<T> b) { return a != a ? b == b : a > b; };
        const auto before = [&](int64_t i, int64_t j) {
          const Wide<T> a = line[i * all.inner], b = line[j * all.inner];
          const bool first = largest ? above(a, b) : above(b, a), second = largest ? above(b, a) : above(a, b);
          return first || (!second && i < j);
        };
        std::iota(order.begin(), order.end(), int64_t{0});
        std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t to = (outer * count + i) * all.inner + inner;
          values[to] = line[order[i] * all.inner];
          if (places) places[to] = order[i];
        }
      }
  });
}

TENON_OP("TopK", 2, 2, 1, 2, infer, evaluate,
         {attr::integer("axis"), attr::integer("k").at_least(0).up_to(9).required(), attr::flag("largest").from(11),
          attr::flag("sorted").from(11)});

}  // namespace
}  // namespace tenon::ops::topk
