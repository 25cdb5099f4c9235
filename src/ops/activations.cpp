#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops {
namespace {

/// Applies `f(x)`.
template <auto f>
void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = x.data<T>();
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(f(static_cast<Wide<T>>(from[i])));
  });
}

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

void hard_sigmoid(Evaluation& ctx) {
  evaluate_with<Floats>(ctx, ctx.node().real("alpha", 0.2f), ctx.node().real("beta", 0.5f),
                        [](auto x, auto a, auto b) { return scalar::hard_sigmoid(x, a, b); });
}
void leaky_relu(Evaluation& ctx) {
  evaluate_with<Floats>(ctx, ctx.node().real("alpha", 0.01f), 0,
                        [](auto x, auto a, auto) { return scalar::leaky_relu(x, a); });
}
void elu(Evaluation& ctx) {
  evaluate_with<Floats>(ctx, ctx.node().real("alpha", 1), 0, [](auto x, auto a, auto) { return scalar::elu(x, a); });
}
void celu(Evaluation& ctx) {
  evaluate_with<Floats>(ctx, ctx.node().real("alpha", 1), 0, [](auto x, auto a, auto) { return scalar::celu(x, a); });
}
void selu(Evaluation& ctx) {
  evaluate_with<Floats>(ctx, ctx.node().real("alpha", 1.67326319217681884765625f),
                        ctx.node().real("gamma", 1.05070102214813232421875f),
                        [](auto x, auto a, auto g) { return scalar::selu(x, a, g); });
}
void thresholded_relu(Evaluation& ctx) {
  evaluate_with<Floats>(ctx, ctx.node().real("alpha", 1), 0,
                        [](auto x, auto a, auto) { return scalar::thresholded_relu(x, a); });
}
void shrink(Evaluation& ctx) {
  evaluate_with<Numbers>(ctx, ctx.node().real("bias", 0), ctx.node().real("lambd", 0.5f),
                         [](auto x, auto bias, auto lambd) { return scalar::shrink(x, bias, lambd); });
}
void swish(Evaluation& ctx) {
  evaluate_with<Floats>(ctx, ctx.node().real("alpha", 1), 0,
                        [](auto x, auto a, auto) { return x * scalar::sigmoid(a * x); });
}
void gelu(Evaluation& ctx) {
  const std::string form = ctx.node().text("approximate", "none");
  if (form == "tanh") return evaluate<[](auto x) { return scalar::gelu_tanh(x); }>(ctx);
  if (form != "none") ctx.fail("approximate is \"" + form + "\"", "it is \"none\" or \"tanh\"");
  evaluate<[](auto x) { return scalar::gelu(x); }>(ctx);
}

void relu(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  dispatch<Numbers>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = x.data<T>();
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(scalar::relu(static_cast<Wide<T>>(from[i])));
  });
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
      return static_cast<T>(value < Wide<T>(0) ? scalar::mul(value, by) : value);
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
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(scalar::clip(static_cast<W>(from[i]), low, high));
  });
}

TENON_OP("Relu", 1, 1, 1, 1, infer_same, relu, {attr::consumed_inputs()},
         unary_traits | Trait::eight_bits | Trait::half);
TENON_OP("Sigmoid", 1, 1, 1, 1, infer_same, evaluate<[](auto x) { return scalar::sigmoid(x); }>,
         {attr::consumed_inputs()}, unary_traits | Trait::eight_bits | Trait::half);
// Internal: x * sigmoid(x).
TENON_OP("tenon:Silu", 1, 1, 1, 1, infer_same, evaluate<[](auto x) { return scalar::silu(x); }>, {},
         unary_traits | Trait::eight_bits | Trait::half);
TENON_OP("Swish", 1, 1, 1, 1, infer_same, swish, {attr::real("alpha")}, unary_traits);
TENON_OP("HardSigmoid", 1, 1, 1, 1, infer_same, hard_sigmoid,
         {attr::real("alpha"), attr::real("beta"), attr::consumed_inputs()},
         unary_traits | Trait::eight_bits | Trait::half);
TENON_OP("HardSwish", 1, 1, 1, 1, infer_same, evaluate<[](auto x) { return scalar::hard_swish(x); }>, {},
         unary_traits | Trait::eight_bits | Trait::half);
TENON_OP("LeakyRelu", 1, 1, 1, 1, infer_same, leaky_relu, {attr::real("alpha"), attr::consumed_inputs()},
         unary_traits | Trait::eight_bits | Trait::half);
TENON_OP("Elu", 1, 1, 1, 1, infer_same, elu, {attr::real("alpha"), attr::consumed_inputs()},
         unary_traits | Trait::half);
TENON_OP("Celu", 1, 1, 1, 1, infer_same, celu, {attr::real("alpha")}, unary_traits);
TENON_OP("Selu", 1, 1, 1, 1, infer_same, selu, {attr::real("alpha"), attr::consumed_inputs(), attr::real("gamma")},
         unary_traits);
TENON_OP("Softplus", 1, 1, 1, 1, infer_same, evaluate<[](auto x) { return scalar::softplus(x); }>, {}, unary_traits);
TENON_OP("Softsign", 1, 1, 1, 1, infer_same, evaluate<[](auto x) { return scalar::softsign(x); }>, {}, unary_traits);
TENON_OP("ThresholdedRelu", 1, 1, 1, 1, infer_same, thresholded_relu, {attr::real("alpha")}, unary_traits);
TENON_OP("Mish", 1, 1, 1, 1, infer_same, evaluate<[](auto x) { return scalar::mish(x); }>, {},
         unary_traits | Trait::eight_bits | Trait::half);
TENON_OP("Gelu", 1, 1, 1, 1, infer_same, gelu, {attr::text("approximate").one_of({"none", "tanh"})},
         unary_traits | Trait::half);
TENON_OP("Shrink", 1, 1, 1, 1, infer_same, shrink, {attr::real("bias"), attr::real("lambd")}, unary_traits);
TENON_OP("PRelu", 2, 2, 1, 1, infer_same, prelu, {attr::consumed_inputs()}, unary_traits);
TENON_OP("Clip", 1, 3, 1, 1, infer_same, clip,
         {attr::consumed_inputs(), attr::real("max").up_to(10), attr::real("min").up_to(10)},
         unary_traits | Trait::eight_bits | Trait::half);

}  // namespace
}  // namespace tenon::ops
