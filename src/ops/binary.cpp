// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ir/dim_program.h"
#include "ops/dispatch.h"
#include "ops/expression.h"
#include "ops/expression_list.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::binary {
namespace {

using ir::Dim;

/// Follows shape arithmetic: `f` of two sizes gives a size or nullopt.
template <class F>
void follow_content(Inference& ctx, F&& f) {
  if (!is_integer(ctx.dtype(0))) return;
  const auto a = flat_content(ctx, 0), b = flat_content(ctx, 1);
  if (!a || !b) return;
  const size_t count = a->size() == 1 ? b->size() : a->size();
  if (count > content_limit || (b->size() != 1 && b->size() != count)) return;
  std::vector<Dim> result;
  for (size_t i = 0; i < count; ++i) {
    std::optional<Dim> dim = f((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    if (!dim) return;
    result.push_back(*dim);
  }
  ctx.set_content(0, std::move(result));
}

template <class F>
void infer_arithmetic(Inference& ctx, F&& f) {
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  infer_broadcast(ctx);
  follow_content(ctx, f);
}

void infer_add(Inference& ctx) {
  infer_arithmetic(ctx, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    int64_t unused;
    if (a.is_constant() && b.is_constant() && __builtin_add_overflow(a.value(), b.value(), &unused))
      return std::nullopt;
    return a + b;
  });
}
void infer_sub(Inference& ctx) {
  infer_arithmetic(ctx, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    int64_t unused;
    if (a.is_constant() && b.is_constant() && __builtin_sub_overflow(a.value(), b.value(), &unused))
      return std::nullopt;
    return a - b;
  });
}
void infer_mul(Inference& ctx) {
  infer_arithmetic(ctx, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    int64_t unused;
    if (a.is_constant() && b.is_constant() && __builtin_mul_overflow(a.value(), b.value(), &unused))
      return std::nullopt;
    return a * b;
  });
}
/// Whether a symbol is taken away in a size, so that it may be negative.
bool falls(const Dim& size) {
  ir::DimProgram program(ir::DimProgram::Symbols::any);
  const int place = program.add(size);
  return place == ir::DimProgram::none || !program.rises(place);
}
void infer_div(Inference& ctx) {
  infer_arithmetic(ctx, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (!b.is_constant()) return a.exact_div(b);
    if (b.value() == 0) return std::nullopt;
    if (a.is_constant()) return Dim(scalar::div(a.value(), b.value()));
    // Symbols are sizes, so floor and truncation agree for positive divisors where none is taken away.
    const auto exact = a.exact_div(b);
    return exact || b.value() < 0 || falls(a) ? exact : std::optional(a.floor_div(b.value()));
  });
}
void infer_mod(Inference& ctx) {
  const bool truncated = ctx.node().integer("fmod", 0);
  infer_arithmetic(ctx, [&](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (!b.is_constant() || b.value() <= 0) return std::nullopt;
    if (truncated && (!a.is_constant() || a.value() < 0)) return std::nullopt;
    return a - a.floor_div(b.value()) * b;
  });
}
void infer_pow(Inference& ctx) {
  constexpr int64_t most = 4;
  infer_broadcast(ctx);
  follow_content(ctx, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (a.is_constant() || !b.is_constant() || b.value() < 0 || b.value() > most) return std::nullopt;
    Dim power(1);
    for (int64_t at = 0; at < b.value(); ++at) power = power * a;
    return power;
  });
}
void infer_equal(Inference& ctx) {
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  infer_broadcast_bool(ctx);
  follow_content(ctx, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (a == b) return Dim(1);
    if (a.is_constant() && b.is_constant()) return Dim(0);
    // A size is never negative, so a lone symbol differs from the -1 and the like that shape arithmetic tests for.
    const auto is_symbol = [](const Dim& dim) { return !dim.is_constant() && Dim::symbol(dim.str()) == dim; };
    if (a.is_constant() && a.value() < 0 && is_symbol(b)) return Dim(0);
    if (b.is_constant() && b.value() < 0 && is_symbol(a)) return Dim(0);
    return std::nullopt;
  });
}
void infer_compare(Inference& ctx) {
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  infer_broadcast_bool(ctx);
}
void infer_like_operands(Inference& ctx) {
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  infer_broadcast(ctx);
}

/// out = f(a, b), both of one type of `Set`; O is the output's element type, or void for that of the inputs.
template <class Set, class O, class F>
void evaluate(Evaluation& ctx, F&& f) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  if (a.dtype() != b.dtype()) want_same_dtype(ctx, a.dtype(), b.dtype());
  const Dims dims = broadcast(ctx, a.dims(), b.dims());
  dispatch<Set>(ctx, a.dtype(), [&]<class T>(Type<T>) {
    using Out = std::conditional_t<std::is_void_v<O>, T, O>;
    using W = Wide<T>;
    Out* to = elements_of<Out>(ctx.output(0, dtype_of<Out>(), dims));
    map_binary(elements_of<T>(a), a.dims(), elements_of<T>(b), b.dims(), to, dims, [&](const T& left, const T& right) {
      if constexpr (std::is_same_v<T, std::string>) return static_cast<Out>(f(left, right));
      else return static_cast<Out>(f(static_cast<W>(left), static_cast<W>(right)));
    });
  });
}

template <class Set, class O, auto f>
void evaluate_fixed(Evaluation& ctx) {
  evaluate<Set, O>(ctx, f);
}

template <class T>
T checked_divisor(Evaluation& ctx, T divisor) {
  if (divisor == 0) ctx.fail("integer division by zero");
  return divisor;
}

void evaluate_div(Evaluation& ctx) {
  evaluate<Numbers, void>(ctx, [&]<class T>(T a, T b) -> T {
    if constexpr (std::is_integral_v<T>) return scalar::div(a, checked_divisor(ctx, b));
    else return expr::Div::apply(a, b);
  });
}

void evaluate_mod(Evaluation& ctx) {
  const bool truncated = ctx.node().integer("fmod", 0);
  evaluate<Numbers, void>(ctx, [&]<class T>(T a, T b) -> T {
    if constexpr (std::is_integral_v<T>) {
      checked_divisor(ctx, b);
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
        const T rest = static_cast<T>(a % b);
        return !truncated && rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
      } else return static_cast<T>(a % b);
    } else {
      const T rest = std::fmod(a, b);
      return !truncated && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
  });
}

template <class T, class S>
T power(T base, S exponent) {
  if constexpr (std::is_integral_v<T> && std::is_integral_v<S>) {
    if constexpr (std::is_signed_v<S>)
      if (exponent < 0) {
        if (base == 1) return 1;
        if constexpr (std::is_signed_v<T>)
          if (base == -1) return exponent % 2 ? -1 : 1;
        return 0;
      }
    T result = 1;
    for (auto left = static_cast<uint64_t>(exponent); left; left >>= 1, base = scalar::mul(base, base))
      if (left & 1) result = scalar::mul(result, base);
    return result;
  } else if constexpr (std::is_integral_v<T>) {
    return scalar::convert<T>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  } else return expr::Pow::apply(base, static_cast<T>(exponent));
}

/// The exponent may have a type of its own; the result has the base's.
void evaluate_pow(Evaluation& ctx) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  const Dims dims = broadcast(ctx, a.dims(), b.dims());
  dispatch<Numbers>(ctx, a.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, a.dtype(), dims).template data<T>();
    dispatch<Numbers>(ctx, b.dtype(), [&]<class S>(Type<S>) {
      map_binary(a.data<T>(), a.dims(), b.data<S>(), b.dims(), to, dims, [](T base, S exponent) {
        return static_cast<T>(power(static_cast<Wide<T>>(base), static_cast<Wide<S>>(exponent)));
      });
    });
  });
}

void evaluate_shift(Evaluation& ctx) {
  const std::string direction = ctx.node().text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    ctx.fail("direction is \"" + direction + "\"", "it is \"LEFT\" or \"RIGHT\"");
  const bool left = direction == "LEFT";
  evaluate<Types<uint8_t, uint16_t, uint32_t, uint64_t>, void>(ctx, [&]<class T>(T value, T by) -> T {
    if (by >= 8 * sizeof(T)) return 0;
    return static_cast<T>(left ? static_cast<uint64_t>(value) << by : static_cast<uint64_t>(value) >> by);
  });
}

using Logical = Types<Bool>;
/// The expression for floats, `whole` for integers, which wrap.
template <class E, auto whole>
constexpr auto real_or = [](auto a, auto b) {
  if constexpr (std::is_integral_v<decltype(a)>) return whole(a, b);
  else return E::apply(a, b);
};
constexpr auto add = [](auto a, auto b) { return scalar::add(a, b); };
constexpr auto sub = [](auto a, auto b) { return scalar::sub(a, b); };
constexpr auto mul = [](auto a, auto b) { return scalar::mul(a, b); };
constexpr auto equal = [](const auto& a, const auto& b) { return a == b; };
constexpr auto greater = [](auto a, auto b) { return a > b; };
constexpr auto greater_or_equal = [](auto a, auto b) { return a >= b; };

/// Up to opset 6 the second operand stands from an axis of the first one's on.
AttributeDefs old_broadcast() { return {attr::integer("axis").up_to(6), attr::flag("broadcast").up_to(6)}; }

TENON_OP("Add", 2, 2, 1, 1, infer_add, evaluate_fixed<Numbers, void, real_or<expr::Add, add>>,
         old_broadcast() + AttributeDefs{attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type | Trait::int8 | Trait::half, formula<expr::Add>);
TENON_OP("Sub", 2, 2, 1, 1, infer_sub, evaluate_fixed<Numbers, void, real_or<expr::Sub, sub>>,
         old_broadcast() + AttributeDefs{attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type | Trait::int8 | Trait::half, formula<expr::Sub>);
TENON_OP("Mul", 2, 2, 1, 1, infer_mul, evaluate_fixed<Numbers, void, real_or<expr::Mul, mul>>,
         old_broadcast() + AttributeDefs{attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type | Trait::int8 | Trait::half, formula<expr::Mul>);
TENON_OP("Div", 2, 2, 1, 1, infer_div, evaluate_div, old_broadcast() + AttributeDefs{attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type, formula<expr::Div>);
TENON_OP("Mod", 2, 2, 1, 1, infer_mod, evaluate_mod, {attr::flag("fmod")}, Trait::elementwise);
TENON_OP("Pow", 2, 2, 1, 1, infer_pow, evaluate_pow, old_broadcast(), Trait::elementwise | Trait::same_type,
         formula<expr::Pow>);
TENON_OP("Equal", 2, 2, 1, 1, infer_equal, evaluate_fixed<NumbersAndString, Bool, equal>, old_broadcast(),
         Trait::elementwise);
TENON_OP("Greater", 2, 2, 1, 1, infer_compare, evaluate_fixed<Numbers, Bool, greater>, old_broadcast(),
         Trait::elementwise);
TENON_OP("Less", 2, 2, 1, 1, infer_compare, evaluate_fixed<Numbers, Bool, [](auto a, auto b) { return a < b; }>,
         old_broadcast(), Trait::elementwise);
TENON_OP("GreaterOrEqual", 2, 2, 1, 1, infer_compare, evaluate_fixed<Numbers, Bool, greater_or_equal>, {},
         Trait::elementwise);
TENON_OP("LessOrEqual", 2, 2, 1, 1, infer_compare, evaluate_fixed<Numbers, Bool, [](auto a, auto b) { return a <= b; }>,
         {}, Trait::elementwise);
TENON_OP("And", 2, 2, 1, 1, infer_compare, evaluate_fixed<Logical, Bool, [](bool a, bool b) { return a && b; }>,
         old_broadcast(), Trait::elementwise);
TENON_OP("Or", 2, 2, 1, 1, infer_compare, evaluate_fixed<Logical, Bool, [](bool a, bool b) { return a || b; }>,
         old_broadcast(), Trait::elementwise);
TENON_OP("Xor", 2, 2, 1, 1, infer_compare, evaluate_fixed<Logical, Bool, [](bool a, bool b) { return a != b; }>,
         old_broadcast(), Trait::elementwise);
TENON_OP("BitwiseAnd", 2, 2, 1, 1, infer_like_operands,
         evaluate_fixed<Integers, void, [](auto a, auto b) { return a & b; }>, {}, Trait::elementwise);
TENON_OP("BitwiseOr", 2, 2, 1, 1, infer_like_operands,
         evaluate_fixed<Integers, void, [](auto a, auto b) { return a | b; }>, {}, Trait::elementwise);
TENON_OP("BitwiseXor", 2, 2, 1, 1, infer_like_operands,
         evaluate_fixed<Integers, void, [](auto a, auto b) { return a ^ b; }>, {}, Trait::elementwise);
TENON_OP("BitShift", 2, 2, 1, 1, infer_like_operands, evaluate_shift,
         {attr::text("direction").one_of({"LEFT", "RIGHT"}).required()}, Trait::elementwise);

}  // namespace
}  // namespace tenon::ops::binary
