// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::transpose {
namespace {

std::vector<size_t> order_of(const auto& ctx, size_t rank) {
  const auto perm = ctx.node().integers("perm");
  std::vector<size_t> order;
  if (!ctx.node().has("perm")) {
    for (size_t axis = rank; axis-- > 0;) order.push_back(axis);
    return order;
  }
  if (perm.size() != rank)
    ctx.fail("perm has " + counted(perm.size(), "axis") + " for a tensor of rank " + std::to_string(rank));
  mark_axes(ctx, perm, rank);
  for (int64_t axis : perm) {
    if (axis < 0) ctx.fail("perm names axis " + std::to_string(axis) + ", which counts from the end");
    order.push_back(normal_axis(ctx, axis, rank));
  }
  return order;
}

void infer(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) {
    order_of(ctx, ctx.node().integers("perm").size());  // passes rely on it
    return ctx.set(0, ctx.dtype(0), std::nullopt);
  }
  ir::Shape to;
  for (size_t axis : order_of(ctx, from->size())) to.push_back((*from)[axis]);
  const bool flat = from->size() <= 1;
  ctx.set(0, ctx.dtype(0), std::move(to));
  if (flat) pass_content(ctx);
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Strides own = strides_of(x.dims());
  Dims dims;
  Strides strides{};
  for (size_t axis : order_of(ctx, x.dims().rank())) {
    strides[dims.rank()] = own[axis];
    dims.push_back(x.dims()[axis]);
  }
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    walk<2>(dims, {strides, strides_of(dims)}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i) to[at[1] + i] = from[at[0] + i * step[0]];
    });
  });
}

TENON_OP("Transpose", 1, 1, 1, 1, infer, evaluate, {attr::integers("perm")},
         Trait::moves | Trait::permutes | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half);

}  // namespace
}  // namespace tenon::ops::transpose
