// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::where_op {
namespace {

void infer(Inference& ctx) {
  if (ctx.dtype(0) != DType::boolean && ctx.dtype(0) != DType::undefined) ctx.fail("the condition is not boolean");
  want_same_dtype(ctx, ctx.dtype(1), ctx.dtype(2));
  ctx.set(0, ctx.dtype(1), broadcast_inputs(ctx));
  const auto condition = flat_content(ctx, 0), yes = flat_content(ctx, 1), no = flat_content(ctx, 2);
  if (!condition || !yes || !no || !is_integer(ctx.dtype(1))) return;
  const size_t count = std::max({condition->size(), yes->size(), no->size()});
  std::vector<ir::Dim> result;
  for (size_t i = 0; i < count; ++i) {
    const auto at = [&](const std::vector<ir::Dim>& from) -> const ir::Dim* {
      return from.size() == 1 ? &from[0] : from.size() == count ? &from[i] : nullptr;
    };
    const ir::Dim *choice = at(*condition), *left = at(*yes), *right = at(*no);
    if (!choice || !choice->is_constant() || !left || !right) return;
    result.push_back(choice->value() ? *left : *right);
  }
  ctx.set_content(0, std::move(result));
}

void evaluate(Evaluation& ctx) {
  const Tensor &condition = ctx.input(0), &yes = ctx.input(1), &no = ctx.input(2);
  if (condition.dtype() != DType::boolean) ctx.fail("the condition is not boolean");
  want_same_dtype(ctx, yes.dtype(), no.dtype());
  const Dims dims = broadcast(ctx, broadcast(ctx, condition.dims(), yes.dims()), no.dims());
  dispatch_moved(ctx, yes.dtype(), [&]<class T>(Type<T>) {
    const Bool* choose = condition.data<Bool>();
    const T *left = elements_of<T>(yes), *right = elements_of<T>(no);
    T* to = elements_of<T>(ctx.output(0, yes.dtype(), dims));
    walk<4>(dims, {broadcast_strides(condition.dims(), dims), broadcast_strides(yes.dims(), dims),
                   broadcast_strides(no.dims(), dims), strides_of(dims)},
            [&](const auto& at, int64_t count, const auto& step) {
              for (int64_t i = 0; i < count; ++i)
                to[at[3] + i] = choose[at[0] + i * step[0]] ? left[at[1] + i * step[1]] : right[at[2] + i * step[2]];
            });
  });
}

TENON_OP("Where", 3, 3, 1, 1, infer, evaluate, {}, Trait::elementwise | Trait::moves | Trait::same_type);

}  // namespace
}  // namespace tenon::ops::where_op
