// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::concat {
namespace {

void infer(Inference& ctx) {
  const DType type = ctx.dtype(0);
  const ir::Shape* first = nullptr;
  for (size_t input = 0; input < ctx.inputs(); ++input) {
    want_same_dtype(ctx, type, ctx.dtype(input));
    if (!first) first = ctx.shape(input);
  }
  if (!first) return ctx.set(0, type, std::nullopt);
  if (!ctx.node().has("axis")) ctx.fail("the attribute axis is missing");
  const size_t rank = first->size(), axis = normal_axis(ctx, ctx.node().integer("axis", 0), rank);
  ir::Shape to = *first;
  std::optional<ir::Dim> sum = ir::Dim(0);
  for (size_t input = 0; input < ctx.inputs(); ++input) {
    const ir::Shape* shape = ctx.shape(input);
    if (!shape) {
      sum.reset();
      continue;
    }
    if (shape->size() != rank)
      ctx.fail("inputs of rank " + std::to_string(rank) + " and " + std::to_string(shape->size()));
    if (sum) sum = *sum + (*shape)[axis];
    for (size_t at = 0; at < rank; ++at) {
      if (at == axis || (*shape)[at] == to[at]) continue;
      if ((*shape)[at].is_constant() && to[at].is_constant())
        ctx.fail("inputs " + ir::str(to) + " and " + ir::str(*shape) + " differ at axis " + std::to_string(at));
      if ((*shape)[at].is_constant()) to[at] = (*shape)[at];
    }
  }
  to[axis] = sum ? *sum : ctx.unknown();
  ctx.set(0, type, std::move(to));
  if (rank != 1) return;
  std::vector<ir::Dim> content;
  for (size_t input = 0; input < ctx.inputs(); ++input) {
    const auto part = ctx.content(input);
    if (!part || content.size() + part->size() > content_limit) return;
    content.insert(content.end(), part->begin(), part->end());
  }
  ctx.set_content(0, std::move(content));
}

void evaluate(Evaluation& ctx) {
  const Tensor& first = ctx.input(0);
  const size_t rank = first.dims().rank(), axis = normal_axis(ctx, ctx.node().integer("axis", 0), rank);
  Dims dims = first.dims();
  dims[axis] = 0;
  for (size_t input = 0; input < ctx.inputs(); ++input) {
    const Tensor& x = ctx.input(input);
    want_same_dtype(ctx, first.dtype(), x.dtype());
    Dims same = x.dims();
    if (same.rank() != rank) ctx.fail("inputs of rank " + std::to_string(rank) + " and " + std::to_string(same.rank()));
    same[axis] = dims[axis];
    if (same != dims)
      ctx.fail("inputs " + first.dims().str() + " and " + x.dims().str() + " differ besides axis " +
               std::to_string(axis));
    dims[axis] += x.dims()[axis];
  }
  dispatch_moved(ctx, first.dtype(), [&]<class T>(Type<T>) {
    T* to = elements_of<T>(ctx.output(0, first.dtype(), dims));
    const Around all = around(dims, axis);
    int64_t start = 0;
    for (size_t input = 0; input < ctx.inputs(); ++input) {
      const int64_t run = ctx.input(input).dims()[axis] * all.inner;
      const T* from = elements_of<T>(ctx.input(input));
      for (int64_t outer = 0; outer < all.outer; ++outer)
        std::copy_n(from + outer * run, run, to + outer * all.size * all.inner + start);
      start += run;
    }
  });
}

TENON_OP("Concat", 1, -1, 1, 1, infer, evaluate,
         {attr::integer("axis").up_to(3), attr::integer("axis").from(4).required()},
         Trait::moves | Trait::joins | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half |
             Trait::all_data);

}  // namespace
}  // namespace tenon::ops::concat
