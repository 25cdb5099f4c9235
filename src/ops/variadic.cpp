// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/expression.h"
#include "ops/expression_list.h"
#include "ops/inference.h"

namespace tenon::ops::variadic {
namespace {

void infer(Inference& ctx) {
  for (size_t input = 1; input < ctx.inputs(); ++input) want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(input));
  infer_broadcast(ctx);
}

constexpr auto larger = [](auto a, auto b) { return expr::Max::apply(a, b); };
constexpr auto smaller = [](auto a, auto b) { return expr::Min::apply(a, b); };

/// The larger or smaller of sizes, as far as these are known to be equal or are numbers.
template <auto f>
void infer_extreme(Inference& ctx) {
  infer(ctx);
  std::vector<ir::Dim> found;
  for (size_t input = 0; input < ctx.inputs(); ++input) {
    const auto content = is_integer(ctx.dtype(0)) ? flat_content(ctx, input) : std::nullopt;
    if (!content || (input > 0 && content->size() != found.size())) return;
    if (input == 0) found = *content;
    for (size_t at = 0; at < found.size(); ++at) {
      const ir::Dim &a = found[at], &b = (*content)[at];
      if (a == b) continue;
      if (!a.is_constant() || !b.is_constant()) return;
      found[at] = ir::Dim(f(a.value(), b.value()));
    }
  }
  ctx.set_content(0, std::move(found));
}

/// Folds all inputs with `f`, in the element type, then applies `last(value, count of inputs)`.
template <class Set, auto f, auto last>
void evaluate(Evaluation& ctx) {
  const DType type = ctx.input(0).dtype();
  Dims dims = ctx.input(0).dims();
  for (size_t input = 1; input < ctx.inputs(); ++input) {
    want_same_dtype(ctx, type, ctx.input(input).dtype());
    dims = broadcast(ctx, dims, ctx.input(input).dims());
  }
  dispatch<Set>(ctx, type, [&]<class T>(Type<T>) {
    using W = Wide<T>;
    std::vector<W> sum(static_cast<size_t>(dims.elements()));
    const Dims scalar_dims;
    const T nothing{};
    map_binary(ctx.input(0).data<T>(), ctx.input(0).dims(), &nothing, scalar_dims, sum.data(), dims,
               [](T a, T) { return static_cast<W>(a); });
    for (size_t input = 1; input < ctx.inputs(); ++input)
      map_binary(ctx.input(input).data<T>(), ctx.input(input).dims(), sum.data(), dims, sum.data(), dims,
                 [](T a, W b) { return f(b, static_cast<W>(a)); });
    T* to = ctx.output(0, type, dims).template data<T>();
    for (size_t i = 0; i < sum.size(); ++i) to[i] = static_cast<T>(last(sum[i], ctx.inputs()));
  });
}

template <class E>
std::optional<Formula> of_two(const ir::Node& node, const InputNumber& number) {
  return node.inputs.size() == 2 ? formula<E>(node, number) : std::nullopt;
}

constexpr auto same = [](auto x, size_t) { return x; };
constexpr auto add = [](auto a, auto b) { return a + b; };
constexpr auto average = [](auto x, size_t count) { return x / static_cast<decltype(x)>(count); };

TENON_OP("Max", 1, -1, 1, 1, infer_extreme<larger>, evaluate<Numbers, larger, same>, {attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type | Trait::half, of_two<expr::Max>);
TENON_OP("Min", 1, -1, 1, 1, infer_extreme<smaller>, evaluate<Numbers, smaller, same>, {attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type | Trait::half, of_two<expr::Min>);
TENON_OP("Sum", 1, -1, 1, 1, infer, evaluate<Floats, add, same>, {attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type);
TENON_OP("Mean", 1, -1, 1, 1, infer, evaluate<Floats, add, average>, {attr::consumed_inputs()},
         Trait::elementwise | Trait::same_type);

}  // namespace
}  // namespace tenon::ops::variadic
