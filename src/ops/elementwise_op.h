// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/dispatch.h"
#include "ops/expression.h"
#include "ops/inference.h"

/// Ops that are one expression of their input: type inference and reference kernel from the expression's header.
namespace tenon::ops {

template <class E, class Set = Floats>
void evaluate_expression(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Formula parameters = *formula<E>(ctx.node(), {});
  dispatch<Set>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    using W = Wide<T>;
    const T* from = x.data<T>();
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    const W alpha = static_cast<W>(parameters.alpha), beta = static_cast<W>(parameters.beta);
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(expr::apply<E>(static_cast<W>(from[i]), alpha, beta));
  });
}

/// The op of that name for floats: const Registrar registered(elementwise_op<expr::Mish>("Mish"));
template <class E>
OpDef elementwise_op(const char* name, AttributeDefs attributes = {}, Traits traits = unary_traits) {
  return {name, 1, 1, 1, 1, infer_same, evaluate_expression<E>, std::move(attributes), traits, formula<E>};
}

}  // namespace tenon::ops
