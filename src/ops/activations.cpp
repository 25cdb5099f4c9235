// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise_op.h"
#include "ops/expression_list.h"
#include "ops/scalar.h"

namespace tenon::ops::activations {
namespace {

/// Applies `f(x, a, b)` with a and b from attributes.
template <class Set, class F>
void evaluate_with(Evaluation& ctx, float a, float b, F&& f) {
  const Tensor& x = ctx.input(0);
  dispatch<Set>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    using W = Wide<T>;
    using C = std::conditional_t<std::is_integral_v<W>, double, W>;
    const T* from = x.data<T>();
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    const C first = static_cast<C>(a), second = static_cast<C>(b);
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) {
      const C result = f(static_cast<C>(from[i]), first, second);
      to[i] = scalar::convert<T>(result);
    }
  });
}

void shrink(Evaluation& ctx) {
  evaluate_with<Numbers>(ctx, ctx.node().real("bias", 0), ctx.node().real("lambd", 0.5f),
                         [](auto x, auto bias, auto lambd) { return scalar::shrink(x, bias, lambd); });
}
bool is_tanh(const ir::Node& node) { return node.text("approximate", "none") == "tanh"; }
void gelu(Evaluation& ctx) {
  const std::string form = ctx.node().text("approximate", "none");
  if (form != "none" && form != "tanh") ctx.fail("approximate is \"" + form + "\"", "it is \"none\" or \"tanh\"");
  return is_tanh(ctx.node()) ? evaluate_expression<expr::GeluTanh>(ctx) : evaluate_expression<expr::Gelu>(ctx);
}
std::optional<Formula> gelu_formula(const ir::Node& node, const InputNumber&) {
  return Formula{is_tanh(node) ? expr::Id::GeluTanh : expr::Id::Gelu};
}

void infer_prelu(Inference& ctx) {
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  const ir::Shape *x = ctx.shape(0), *slope = ctx.shape(1);
  if (x && slope && !broadcasts_to(*slope, *x))
    ctx.fail("a slope of shape " + ir::str(*slope) + " does not broadcast to " + ir::str(*x));
  infer_same(ctx);
}

void infer_clip(Inference& ctx) {
  for (const size_t bound : {1, 2}) {
    if (ctx.has(bound)) want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(bound));
    want_one(ctx, bound, "a bound");
  }
  infer_same(ctx);
}

/// The slope broadcasts to x alone.
void prelu(Evaluation& ctx) {
  const Tensor &x = ctx.input(0), &slope = ctx.input(1);
  want_same_dtype(ctx, x.dtype(), slope.dtype());
  if (broadcast(ctx, x.dims(), slope.dims()) != x.dims())
    ctx.fail("a slope of shape " + slope.dims().str() + " does not broadcast to " + x.dims().str());
  dispatch<Numbers>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    map_binary(x.data<T>(), x.dims(), slope.data<T>(), slope.dims(), to, x.dims(), [](Wide<T> value, Wide<T> by) {
      if constexpr (std::is_integral_v<T>) return static_cast<T>(value < 0 ? scalar::mul(value, by) : value);
      else return static_cast<T>(expr::PRelu::apply(value, by));
    });
  });
}

void clip(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  for (size_t bound = 1; bound < 3; ++bound)
    if (ctx.has(bound)) {
      want_same_dtype(ctx, x.dtype(), ctx.input(bound).dtype());
      if (ctx.input(bound).elements() != 1) ctx.fail("a bound is not a scalar");
    }
  dispatch<Numbers>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    using W = Wide<T>;
    using Limits = std::numeric_limits<W>;
    W low = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    W high = Limits::has_infinity ? Limits::infinity() : Limits::max();
    if (ctx.has(1)) low = *ctx.input(1).template data<T>();
    if (ctx.has(2)) high = *ctx.input(2).template data<T>();
    const T* from = x.data<T>();
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(expr::Clip::apply(static_cast<W>(from[i]), low, high));
  });
}

/// A slope of one number is that of a LeakyRelu.
std::optional<Formula> prelu_formula(const ir::Node&, const InputNumber& number) {
  if (const auto slope = number(1)) return Formula{expr::Id::LeakyRelu, *slope};
  return Formula{expr::Id::PRelu};
}
/// Where the bounds are constant.
std::optional<Formula> clip_formula(const ir::Node& node, const InputNumber& number) {
  Formula clip{expr::Id::Clip, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
  for (size_t at = 1; at < node.inputs.size(); ++at) {
    if (node.inputs[at] == ir::no_value) continue;
    const auto bound = number(at);
    if (!bound) return std::nullopt;
    (at == 1 ? clip.alpha : clip.beta) = *bound;
  }
  return clip;
}

TENON_OP("Relu", 1, 1, 1, 1, infer_same, evaluate_expression<expr::Relu, Numbers>, {attr::consumed_inputs()},
         unary_traits | Trait::int8 | Trait::half, formula<expr::Relu>);
TENON_OP("Gelu", 1, 1, 1, 1, infer_same, gelu, {attr::text("approximate").one_of({"none", "tanh"})},
         unary_traits | Trait::half, gelu_formula);
TENON_OP("PRelu", 2, 2, 1, 1, infer_prelu, prelu, {attr::consumed_inputs()}, unary_traits | Trait::half, prelu_formula);
TENON_OP("Clip", 1, 3, 1, 1, infer_clip, clip,
         {attr::consumed_inputs(), attr::real("max").up_to(10), attr::real("min").up_to(10)},
         unary_traits | Trait::int8 | Trait::half, clip_formula);
const Registrar celu_op(elementwise_op<expr::Celu>("Celu", {attr::real("alpha")}, unary_traits));
const Registrar elu_op(elementwise_op<expr::Elu>("Elu", {attr::real("alpha"), attr::consumed_inputs()},
                                                 unary_traits | Trait::half));
const Registrar hard_sigmoid_op(
    elementwise_op<expr::HardSigmoid>("HardSigmoid", {attr::real("alpha"), attr::real("beta"), attr::consumed_inputs()},
                                      unary_traits | Trait::int8 | Trait::half));
const Registrar hard_swish_op(elementwise_op<expr::HardSwish>("HardSwish", {},
                                                              unary_traits | Trait::int8 | Trait::half));
const Registrar leaky_relu_op(elementwise_op<expr::LeakyRelu>("LeakyRelu",
                                                              {attr::real("alpha"), attr::consumed_inputs()},
                                                              unary_traits | Trait::int8 | Trait::half));
const Registrar mish_op(elementwise_op<expr::Mish>("Mish", {}, unary_traits | Trait::int8 | Trait::half));
const Registrar selu_op(elementwise_op<expr::Selu>("Selu",
                                                   {attr::real("alpha"), attr::consumed_inputs(), attr::real("gamma")},
                                                   unary_traits));
const Registrar sigmoid_op(elementwise_op<expr::Sigmoid>("Sigmoid", {attr::consumed_inputs()},
                                                         unary_traits | Trait::int8 | Trait::half));
// Internal: x sigmoid(x).
const Registrar silu_op(elementwise_op<expr::Silu>("tenon:Silu", {}, unary_traits | Trait::int8 | Trait::half));
const Registrar softplus_op(elementwise_op<expr::Softplus>("Softplus", {}, unary_traits));
const Registrar softsign_op(elementwise_op<expr::Softsign>("Softsign", {}, unary_traits));
const Registrar thresholded_relu_op(elementwise_op<expr::ThresholdedRelu>("ThresholdedRelu", {attr::real("alpha")},
                                                                          unary_traits));
TENON_OP("Shrink", 1, 1, 1, 1, infer_same, shrink, {attr::real("bias"), attr::real("lambd")}, unary_traits);
const Registrar swish_op(elementwise_op<expr::Swish>("Swish", {attr::real("alpha")},
                                                     unary_traits | Trait::int8 | Trait::half));

}  // namespace
}  // namespace tenon::ops::activations
