// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::unique {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  std::optional<ir::Shape> shape;
  const ir::Dim count = ctx.unknown();
  if (!ctx.node().has("axis")) {
    shape = ir::Shape{count};
  } else if (x) {
    shape = *x;
    (*shape)[normal_axis(ctx, ctx.node().integer("axis", 0), x->size())] = count;
  }
  ctx.set(0, ctx.dtype(0), shape);
  for (size_t output : {size_t{1}, size_t{3}}) ctx.set(output, DType::i64, ir::Shape{count});
  if (ctx.outputs() > 2) ctx.set(2, DType::i64, ir::Shape{ctx.unknown()});
}

/// Slices along an axis (elements without one) that differ, with first places, the slice each one equals, and counts.
void evaluate(Evaluation& ctx) {
  const bool flat = !ctx.node().has("axis");
  const Tensor x = flat ? ctx.input(0).reshaped({ctx.input(0).elements()}) : ctx.input(0);
  const size_t axis = flat ? 0 : normal_axis(ctx, ctx.node().integer("axis", 0), x.dims().rank());
  const Around all = around(x.dims(), axis);
  dispatch<NumbersAndString>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    // -1, 0 or 1; a NaN equals a NaN and comes last.
    const auto order = [&](int64_t a, int64_t b) {
      for (int64_t outer = 0; outer < all.outer; ++outer)
        for (int64_t inner = 0; inner < all.inner; ++inner) {
          const T& left = from[(outer * all.size + a) * all.inner + inner];
          const T& right = from[(outer * all.size + b) * all.inner + inner];
          if constexpr (is_real<T>) {
            const Wide<T> l = left, r = right;
            if (l != l || r != r) {
              if ((l != l) != (r != r)) return l != l ? 1 : -1;
              continue;
            }
            if (l != r) return l < r ? -1 : 1;
          } else {
            if (left < right) return -1;
            if (right < left) return 1;
          }
        }
      return 0;
    };
    std::vector<int64_t> sorted(static_cast<size_t>(all.size));
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t a, int64_t b) { return order(a, b) < 0; });
    std::vector<int64_t> group(sorted.size()), first, count;
    for (size_t at = 0; at < sorted.size(); ++at) {
      if (at == 0 || order(sorted[at - 1], sorted[at]) != 0) first.push_back(sorted[at]), count.push_back(0);
      ++count.back();
      group[static_cast<size_t>(sorted[at])] = static_cast<int64_t>(first.size()) - 1;
    }
    std::vector<size_t> sequence(first.size());
    std::iota(sequence.begin(), sequence.end(), size_t{0});
    if (!ctx.node().integer("sorted", 1))
      std::sort(sequence.begin(), sequence.end(), [&](size_t a, size_t b) { return first[a] < first[b]; });
    std::vector<int64_t> place(first.size());
    for (size_t at = 0; at < sequence.size(); ++at) place[sequence[at]] = static_cast<int64_t>(at);
    const auto found = static_cast<int64_t>(first.size());
    Dims dims = x.dims();
    dims[axis] = found;
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t at = 0; at < found; ++at)
        to = std::copy_n(from + (outer * all.size + first[sequence[static_cast<size_t>(at)]]) * all.inner, all.inner,
                         to);
    const auto deliver = [&](size_t output, size_t length, auto&& value) {
      if (!ctx.wants(output)) return;
      auto* list = ctx.output(output, DType::i64, {static_cast<int64_t>(length)}).template data<int64_t>();
      for (size_t at = 0; at < length; ++at) list[at] = value(at);
    };
    deliver(1, first.size(), [&](size_t at) { return first[sequence[at]]; });
    deliver(2, group.size(), [&](size_t at) { return place[static_cast<size_t>(group[at])]; });
    deliver(3, first.size(), [&](size_t at) { return count[sequence[at]]; });
  });
}

TENON_OP("Unique", 1, 1, 1, 4, infer, evaluate, {attr::integer("axis"), attr::flag("sorted")}, Trait::finds);

}  // namespace
}  // namespace tenon::ops::unique
