// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/elementwise_op.h"
#include "ops/expression_list.h"
#include "ops/scalar.h"

namespace tenon::ops::unary {
namespace {

template <class Set, auto f>
void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  dispatch<Set>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = x.data<T>();
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(f(static_cast<Wide<T>>(from[i])));
  });
}

template <auto f>
void evaluate_test(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const bool positive = ctx.node().integer("detect_positive", 1), negative = ctx.node().integer("detect_negative", 1);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = x.data<T>();
    Bool* to = ctx.output(0, DType::boolean, x.dims()).template data<Bool>();
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) to[i] = Bool(f(static_cast<Wide<T>>(from[i]), positive, negative));
  });
}

void evaluate_identity(Evaluation& ctx) { ctx.set(0, ctx.input(0)); }

void infer_identity(Inference& ctx) {
  infer_same(ctx);
  pass_content(ctx);
}

void evaluate_not(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.dtype() != DType::boolean) ctx.fail("the input is not boolean");
  const Bool* from = x.data<Bool>();
  Bool* to = ctx.output(0, DType::boolean, x.dims()).data<Bool>();
  const int64_t count = x.elements();
  for (int64_t i = 0; i < count; ++i) to[i] = Bool(!from[i]);
}

/// The expression for floats, `whole` for integers.
template <class E, auto whole>
constexpr auto real_or = [](auto x) {
  if constexpr (std::is_integral_v<decltype(x)>) return whole(x);
  else return E::apply(x);
};
constexpr auto absolute = [](auto x) {
  if constexpr (std::is_unsigned_v<decltype(x)>) return x;
  else return x < 0 ? scalar::sub(decltype(x)(0), x) : x;
};
constexpr auto negated = [](auto x) { return scalar::sub(decltype(x)(0), x); };
constexpr auto sign = [](auto x) { return static_cast<decltype(x)>((x > 0) - (x < 0)); };
constexpr auto is_infinite = [](auto x, bool positive, bool negative) {
  return std::isinf(x) && (x > 0 ? positive : negative);
};

TENON_OP("Abs", 1, 1, 1, 1, infer_same, evaluate<Numbers, real_or<expr::Abs, absolute>>, {attr::consumed_inputs()},
         unary_traits, formula<expr::Abs>);
TENON_OP("Neg", 1, 1, 1, 1, infer_same, evaluate<Numbers, real_or<expr::Neg, negated>>, {attr::consumed_inputs()},
         unary_traits, formula<expr::Neg>);
TENON_OP("Sign", 1, 1, 1, 1, infer_same, evaluate<Numbers, real_or<expr::Sign, sign>>, {}, unary_traits,
         formula<expr::Sign>);
const Registrar exp_op(elementwise_op<expr::Exp>("Exp", {attr::consumed_inputs()}, unary_traits));
const Registrar log_op(elementwise_op<expr::Log>("Log", {attr::consumed_inputs()}, unary_traits));
const Registrar sqrt_op(elementwise_op<expr::Sqrt>("Sqrt", {attr::consumed_inputs()}, unary_traits));
const Registrar reciprocal_op(elementwise_op<expr::Reciprocal>("Reciprocal", {attr::consumed_inputs()}, unary_traits));
const Registrar floor_op(elementwise_op<expr::Floor>("Floor", {attr::consumed_inputs()}, unary_traits));
const Registrar ceil_op(elementwise_op<expr::Ceil>("Ceil", {attr::consumed_inputs()}, unary_traits));
const Registrar round_op(elementwise_op<expr::Round>("Round", {}, unary_traits));
const Registrar sin_op(elementwise_op<expr::Sin>("Sin", {}, unary_traits));
const Registrar cos_op(elementwise_op<expr::Cos>("Cos", {}, unary_traits));
const Registrar tanh_op(elementwise_op<expr::Tanh>("Tanh", {attr::consumed_inputs()}, unary_traits | Trait::half));
const Registrar erf_op(elementwise_op<expr::Erf>("Erf", {}, unary_traits));
TENON_OP("Tan", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::tan(x); }>, {}, unary_traits);
TENON_OP("Asin", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::asin(x); }>, {}, unary_traits);
TENON_OP("Acos", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::acos(x); }>, {}, unary_traits);
TENON_OP("Atan", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::atan(x); }>, {}, unary_traits);
TENON_OP("Sinh", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::sinh(x); }>, {}, unary_traits);
TENON_OP("Cosh", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::cosh(x); }>, {}, unary_traits);
TENON_OP("Asinh", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::asinh(x); }>, {}, unary_traits);
TENON_OP("Acosh", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::acosh(x); }>, {}, unary_traits);
TENON_OP("Atanh", 1, 1, 1, 1, infer_same, evaluate<Floats, [](auto x) { return std::atanh(x); }>, {}, unary_traits);
TENON_OP("BitwiseNot", 1, 1, 1, 1, infer_same, evaluate<Integers, [](auto x) { return ~x; }>, {}, unary_traits);
TENON_OP("Not", 1, 1, 1, 1, infer_same_bool, evaluate_not, {}, Trait::elementwise);
TENON_OP("IsNaN", 1, 1, 1, 1, infer_same_bool, evaluate_test<[](auto x, bool, bool) { return x != x; }>, {},
         Trait::elementwise);
TENON_OP("IsInf", 1, 1, 1, 1, infer_same_bool, evaluate_test<is_infinite>,
         {attr::flag("detect_negative"), attr::flag("detect_positive")}, Trait::elementwise);
TENON_OP("Identity", 1, 1, 1, 1, infer_identity, evaluate_identity, {},
         Trait::view | Trait::moves | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half);

}  // namespace
}  // namespace tenon::ops::unary
