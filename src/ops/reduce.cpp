// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/dispatch.h"
#include "ops/epilogue.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::reduce {
namespace {

/// Which axes go: those of input 1; all of them, or none with noop_with_empty_axes, when it is absent or empty.
std::array<bool, Dims::max_rank> reduced_axes(const auto& ctx, const std::vector<int64_t>& axes, size_t rank) {
  auto marked = mark_axes(ctx, axes, rank);
  if (axes.empty() && !ctx.node().integer("noop_with_empty_axes", 0)) marked.fill(true);
  return marked;
}

void infer(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  const bool keep = ctx.node().integer("keepdims", 1);
  const DType type = output_type(ctx, ctx.dtype(0));
  if (!from) return ctx.set(0, type, std::nullopt);
  const auto axes = ctx.has(1) ? ctx.integers(1) : std::optional(std::vector<int64_t>{});
  if (!axes) {
    const auto count = known_length(ctx, 1);
    const size_t gone = keep || !count ? 0 : static_cast<size_t>(*count);
    if ((!keep && (!count || *count == 0)) || gone > from->size()) return ctx.set(0, type, std::nullopt);
    return ctx.set(0, type, unknown_shape(ctx, from->size() - gone));
  }
  const auto marked = reduced_axes(ctx, *axes, from->size());
  ir::Shape to;
  for (size_t axis = 0; axis < from->size(); ++axis)
    if (!marked[axis]) to.push_back((*from)[axis]);
    else if (keep) to.push_back(1);
  ctx.set(0, type, std::move(to));
}

void infer_prod(Inference& ctx) {
  infer(ctx);
  const auto content = ctx.content(0);
  const ir::Shape* from = ctx.shape(0);
  if (!content || !from || from->size() != 1 || !is_integer(ctx.dtype(0)) ||
      ctx.node().integer("noop_with_empty_axes", 0))
    return;
  ctx.set_content(0, {ir::product(*content)});
}

/// The accumulator of a reduction over T: double for floats, 64 bits for integers.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<Wide<T>>,
                               std::conditional_t<std::is_signed_v<Wide<T>>, int64_t, uint64_t>, double>;

/// Folds with `step(accumulator, element)` from `first`, then applies `last(accumulator, count)`.
/// With `shifted`, elements arrive less the maximum of their group, which is added back to the result (for LogSumExp).
template <class Set, class Rule>
void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const bool keep = ctx.node().integer("keepdims", 1);
  const size_t rank = x.dims().rank();
  const auto axes = ctx.has(1) ? ctx.integers(1) : std::vector<int64_t>{};
  const auto marked = reduced_axes(ctx, axes, rank);
  const DType type = output_type(ctx, x.dtype());
  Dims full = x.dims(), to_dims;
  int64_t count = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (marked[axis]) {
      count *= full[axis];
      full[axis] = 1;
    }
    if (!marked[axis] || keep) to_dims.push_back(full[axis]);
  }
  const Strides to_strides = broadcast_strides(full, x.dims()), from_strides = strides_of(x.dims());
  dispatch<Set>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    using S = Sum<T>;
    const T* from = x.data<T>();
    const size_t groups = static_cast<size_t>(full.elements());
    const auto each = [&](S* sums, auto&& step) {
      walk<2>(x.dims(), {from_strides, to_strides}, [&](const auto& at, int64_t length, const auto& by) {
        for (int64_t i = 0; i < length; ++i) {
          S& sum = sums[at[1] + i * by[1]];
          sum =
              step(sum, static_cast<S>(static_cast<Wide<T>>(from[at[0] + i])), static_cast<size_t>(at[1] + i * by[1]));
        }
      });
    };
    std::vector<S> shift(groups, S(0));
    if constexpr (Rule::shifted) {
      std::fill(shift.begin(), shift.end(), -std::numeric_limits<double>::infinity());
      each(shift.data(), [](S a, S b, size_t) { return scalar::maximum(a, b); });
      for (S& value : shift)
        if (!std::isfinite(value)) value = 0;
    }
    std::vector<S> sums(groups, Rule::template first<T, S>());
    each(sums.data(), [&](S a, S b, size_t group) { return Rule::step(a, static_cast<S>(b - shift[group])); });
    const auto give = [&]<class To>(Type<To>) {
      To* to = ctx.output(0, type, to_dims).template data<To>();
      for (size_t group = 0; group < groups; ++group) {
        const S result = static_cast<S>(Rule::last(sums[group], count) + shift[group]);
        if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat>)
          to[group] = To(static_cast<float>(result));
        else to[group] = scalar::convert<To>(result);
      }
    };
    if (type == x.dtype()) give(Type<T>());
    else if constexpr (std::is_same_v<S, double>) dispatch<Floats>(ctx, type, give);
    else ctx.fail("output_dtype of integers");
  });
}

struct Rule {
  static constexpr bool shifted = false;
  template <class T, class S>
  static S first() {
    return 0;
  }
  template <class S>
  static S last(S sum, int64_t) {
    return sum;
  }
};
template <class S>
S plus(S a, S b) {
  return scalar::add(a, b);
}
/// A real function of an accumulator, cut towards zero for integers.
template <class S, class F>
S real(S value, F&& f) {
  return scalar::convert<S>(f(static_cast<double>(value)));
}

struct AddUp : Rule {
  template <class S>
  static S step(S a, S b) {
    return plus(a, b);
  }
};
struct Average : AddUp {
  template <class S>
  static S last(S sum, int64_t count) {
    if constexpr (std::is_integral_v<S>) return count ? static_cast<S>(sum / static_cast<S>(count)) : S(0);
    else return sum / static_cast<double>(count);
  }
};
struct Product : Rule {
  template <class T, class S>
  static S first() {
    return 1;
  }
  template <class S>
  static S step(S a, S b) {
    return scalar::mul(a, b);
  }
};
struct Largest : Rule {
  template <class T, class S>
  static S first() {
    if constexpr (std::is_same_v<T, Bool>) return 0;
    else if constexpr (std::is_floating_point_v<S>) return -std::numeric_limits<S>::infinity();
    else return std::numeric_limits<T>::lowest();
  }
  template <class S>
  static S step(S a, S b) {
    return scalar::maximum(a, b);
  }
};
struct Smallest : Rule {
  template <class T, class S>
  static S first() {
    if constexpr (std::is_same_v<T, Bool>) return 1;
    else if constexpr (std::is_floating_point_v<S>) return std::numeric_limits<S>::infinity();
    else return std::numeric_limits<T>::max();
  }
  template <class S>
  static S step(S a, S b) {
    return scalar::minimum(a, b);
  }
};
struct L1 : Rule {
  template <class S>
  static S step(S a, S b) {
    return plus(a, b < S(0) ? scalar::sub(S(0), b) : b);
  }
};
struct Squares : Rule {
  template <class S>
  static S step(S a, S b) {
    return plus(a, scalar::mul(b, b));
  }
};
struct L2 : Squares {
  template <class S>
  static S last(S sum, int64_t) {
    return real(sum, [](double x) { return std::sqrt(x); });
  }
};
struct LogSum : AddUp {
  template <class S>
  static S last(S sum, int64_t) {
    return real(sum, [](double x) { return std::log(x); });
  }
};
struct LogSumExp : Rule {
  static constexpr bool shifted = true;
  template <class S>
  static S step(S a, S b) {
    return plus(a, real(b, [](double x) { return std::exp(x); }));
  }
  template <class S>
  static S last(S sum, int64_t) {
    return real(sum, [](double x) { return std::log(x); });
  }
};

/// The axes are an input from an opset on.
AttributeDefs reduce_attributes(int since) {
  return {attr::integers("axes").up_to(since - 1), attr::flag("keepdims"),
          attr::flag("noop_with_empty_axes").from(since), attr::element_type("output_dtype").internal()};
}
/// The output_dtype is what passes ask for: sums are of f32 at least, whatever floats come and go.
constexpr auto traits = Trait::same_type | Trait::any_float;

TENON_OP("ReduceSum", 1, 2, 1, 1, infer, evaluate<Numbers, AddUp>, reduce_attributes(13), traits | Reduction::sum);
TENON_OP("ReduceMean", 1, 2, 1, 1, infer, evaluate<Numbers, Average>, reduce_attributes(18),
         traits | Trait::int8 | Reduction::mean);
TENON_OP("ReduceProd", 1, 2, 1, 1, infer_prod, evaluate<Numbers, Product>, reduce_attributes(18),
         Trait::same_type | Reduction::product);
TENON_OP("ReduceMax", 1, 2, 1, 1, infer, evaluate<NumbersAndBool, Largest>, reduce_attributes(18),
         traits | Reduction::largest);
TENON_OP("ReduceMin", 1, 2, 1, 1, infer, evaluate<NumbersAndBool, Smallest>, reduce_attributes(18),
         traits | Reduction::smallest);
TENON_OP("ReduceL1", 1, 2, 1, 1, infer, evaluate<Numbers, L1>, reduce_attributes(18), traits | Reduction::l1);
TENON_OP("ReduceL2", 1, 2, 1, 1, infer, evaluate<Numbers, L2>, reduce_attributes(18), traits | Reduction::l2);
TENON_OP("ReduceSumSquare", 1, 2, 1, 1, infer, evaluate<Numbers, Squares>, reduce_attributes(18),
         traits | Reduction::squares);
TENON_OP("ReduceLogSum", 1, 2, 1, 1, infer, evaluate<Numbers, LogSum>, reduce_attributes(18),
         Trait::same_type | Reduction::log_sum);
TENON_OP("ReduceLogSumExp", 1, 2, 1, 1, infer, evaluate<Floats, LogSumExp>, reduce_attributes(18),
         Trait::same_type | Reduction::log_sum_exp);

}  // namespace
}  // namespace tenon::ops::reduce
