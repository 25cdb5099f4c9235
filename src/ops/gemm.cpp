// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/epilogue.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/matrix.h"
#include "ops/window.h"

namespace tenon::ops::gemm {
namespace {

void infer(Inference& ctx) {
  if (ctx.constant(1)) want_weight_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  else want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  const ir::Shape *a = ctx.shape(0), *b = ctx.shape(1);
  if (!a || !b) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 2));
  if (a->size() != 2 || b->size() != 2)
    ctx.fail("operands " + ir::str(*a) + " and " + ir::str(*b) + " are not both matrices");
  const bool trans_a = ctx.node().integer("transA", 0), trans_b = ctx.node().integer("transB", 0);
  const ir::Dim &inner = (*a)[trans_a ? 0 : 1], &other = (*b)[trans_b ? 1 : 0];
  if (inner.is_constant() && other.is_constant() && !(inner == other))
    ctx.fail("inner sizes " + inner.str() + " and " + other.str() + " differ");
  ir::Shape to{(*a)[trans_a ? 1 : 0], (*b)[trans_b ? 0 : 1]};
  if (const ir::Shape* c = ctx.shape(2)) {
    bool fits = c->size() <= 2;
    for (size_t axis = 0; fits && axis < c->size(); ++axis) {
      const ir::Dim& size = (*c)[c->size() - 1 - axis];
      fits = size == ir::Dim(1) || !differ(size, to[1 - axis]);
    }
    if (!fits) ctx.fail("C of shape " + ir::str(*c) + " does not broadcast to " + ir::str(to));
  }
  const Epilogue epilogue = read_epilogue(ctx);
  check_residual(ctx, epilogue, ctx.dtype(0), to);
  check_slopes(ctx, epilogue, to[1]);
  ctx.set(0, ctx.dtype(0), std::move(to));
}

void evaluate(Evaluation& ctx) {
  const Tensor& a = ctx.input(0);
  want_weight_dtype(ctx, a.dtype(), ctx.input(1).dtype());
  const Tensor b = a.dtype() == DType::f32 ? as_f32(ctx.input(1)) : ctx.input(1);
  if (a.dims().rank() != 2 || b.dims().rank() != 2)
    ctx.fail("operands " + a.dims().str() + " and " + b.dims().str() + " are not both matrices");
  const bool trans_a = ctx.node().integer("transA", 0), trans_b = ctx.node().integer("transB", 0);
  const float alpha = ctx.node().real("alpha", 1), beta = ctx.node().real("beta", 1);
  const int64_t m = a.dims()[trans_a ? 1 : 0], k = a.dims()[trans_a ? 0 : 1], n = b.dims()[trans_b ? 0 : 1];
  if (b.dims()[trans_b ? 1 : 0] != k)
    ctx.fail("inner sizes of " + a.dims().str() + " and " + b.dims().str() + " differ");
  const Dims dims{m, n};
  if (ctx.has(2)) {
    want_same_dtype(ctx, a.dtype(), ctx.input(2).dtype());
    if (broadcast(ctx, dims, ctx.input(2).dims()) != dims)
      ctx.fail("C of shape " + ctx.input(2).dims().str() + " does not broadcast to " + dims.str());
  }
  dispatch<Numbers>(ctx, a.dtype(), [&]<class T>(Type<T>) {
    using C = std::conditional_t<std::is_integral_v<Wide<T>>, T, double>;
    std::vector<C> product(static_cast<size_t>(dims.elements()));
    multiply(a.data<T>(), trans_a, b.data<T>(), trans_b, product.data(), m, n, k);
    T* to = ctx.output(0, a.dtype(), dims).template data<T>();
    const auto store = [](double value) {
      if constexpr (std::is_integral_v<Wide<T>>) return scalar::convert<T>(value);
      else return static_cast<T>(static_cast<Wide<T>>(value));
    };
    const Epilogue epilogue = read_epilogue(ctx);
    const bool residual = epilogue.residual != Residual::none;
    if (residual && (!ctx.has(3) || ctx.input(3).dtype() != a.dtype() || !(ctx.input(3).dims() == dims)))
      ctx.fail("the residual is not like the output");
    const T* other = residual ? ctx.input(3).template data<T>() : nullptr;
    int64_t at = 0;
    const T zero{};
    const Tensor* c = ctx.has(2) ? &ctx.input(2) : nullptr;
    map_binary(product.data(), dims, c ? c->data<T>() : &zero, c ? c->dims() : Dims{}, to, dims, [&](C sum, T add) {
      double value = alpha * static_cast<double>(sum) + (c ? beta * static_cast<double>(static_cast<Wide<T>>(add)) : 0);
      const double more = residual ? static_cast<double>(static_cast<Wide<T>>(other[at])) : 0;
      apply(epilogue, value, more, at++ % n);
      return store(value);
    });
  });
}

TENON_OP("Gemm", 2, 4, 1, 1, infer, evaluate,
         AttributeDefs{attr::real("alpha"), attr::real("beta"), attr::flag("broadcast").up_to(6), attr::flag("transA"),
                       attr::flag("transB")} +
             AttributeDefs{attr::text("activation").internal(),
                           attr::text("residual").one_of({"before", "after"}).internal(),
                           attr::reals("slopes").internal()},
         Trait::product | Trait::general_product | Trait::integer_form | Trait::same_type | Traits::standard_inputs(3));

}  // namespace
}  // namespace tenon::ops::gemm
