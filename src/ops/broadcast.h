// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "ops/op.h"

/// Broadcasting, strided walks and axes: what most tensor ops share.
namespace tenon::ops {

using Strides = std::array<int64_t, Dims::max_rank>;

/// Row-major strides, in elements. Those of a tensor without elements are never used, so they may wrap.
Strides strides_of(const Dims& dims);

/// Strides that read `from` as if it had the sizes `to` (aligned at the last axis; 0 where a size is stretched).
Strides broadcast_strides(const Dims& from, const Dims& to);

/// The innermost runs of `dims` for N operands of given strides, in row-major order. Neighbouring axes that are
/// contiguous in every operand are joined. Compiled for N from 2 to 4, once for all element types.
template <size_t N>
class Runs {
 public:
  Runs(const Dims& dims, const std::array<Strides, N>& strides);

  /// Goes to the next run, at first to the first; false behind the last.
  bool next();

  std::array<int64_t, N> offsets{}, steps{};  // of the present run
  int64_t count = 0;

 private:
  Dims sizes_;
  std::array<Strides, N> strides_{};
  std::array<int64_t, Dims::max_rank> index_{};
  bool started_ = false, empty_ = false;
};
extern template class Runs<2>;
extern template class Runs<3>;
extern template class Runs<4>;

/// Visits all elements of `dims` for N operands of given strides: row(offsets, count, steps) once per run.
template <size_t N, class F>
void walk(const Dims& dims, const std::array<Strides, N>& strides, F&& row) {
  Runs<N> runs(dims, strides);
  while (runs.next()) row(runs.offsets, runs.count, runs.steps);
}

/// The size that two sizes broadcast to. Equal gives the same; 1 gives the other; a constant above 1 wins over a
/// symbol.
template <class Context>
ir::Dim broadcast_dim(Context& ctx, const ir::Dim& a, const ir::Dim& b) {
  if (a == b) return a;
  if (a.is_constant() && a.value() == 1) return b;
  if (b.is_constant() && b.value() == 1) return a;
  if (a.is_constant() && b.is_constant()) ctx.fail("sizes " + a.str() + " and " + b.str() + " cannot be broadcast");
  if (a.is_constant()) return a;
  if (b.is_constant()) return b;
  return ctx.unknown();
}

inline ir::Shape broadcast(Inference& ctx, const ir::Shape& a, const ir::Shape& b) {
  ir::Shape out(std::max(a.size(), b.size()));
  for (size_t back = 1; back <= out.size(); ++back) {
    const ir::Dim one(1);
    const ir::Dim& left = back <= a.size() ? a[a.size() - back] : one;
    const ir::Dim& right = back <= b.size() ? b[b.size() - back] : one;
    out[out.size() - back] = broadcast_dim(ctx, left, right);
  }
  return out;
}

/// The sizes that `a` and `b` broadcast to; fails the node where they do not.
template <class Context>
Dims broadcast(const Context& ctx, const Dims& a, const Dims& b) {
  Dims out = a.rank() >= b.rank() ? a : b;
  const Dims& small = a.rank() >= b.rank() ? b : a;
  const size_t shift = out.rank() - small.rank();
  for (size_t axis = 0; axis < small.rank(); ++axis) {
    int64_t& size = out[axis + shift];
    if (size == 1) size = small[axis];
    else if (small[axis] != 1 && small[axis] != size)
      ctx.fail("shapes " + a.str() + " and " + b.str() + " cannot be broadcast");
  }
  return out;
}

/// out[i] = f(a[i], b[i]) with both sides broadcast to `dims`.
template <class A, class B, class O, class F>
void map_binary(const A* a, const Dims& a_dims, const B* b, const Dims& b_dims, O* out, const Dims& dims, F&& f) {
  walk<3>(dims, {broadcast_strides(a_dims, dims), broadcast_strides(b_dims, dims), strides_of(dims)},
          [&](const auto& at, int64_t count, const auto& step) {
            const A* left = a + at[0];
            const B* right = b + at[1];
            O* to = out + at[2];
            for (int64_t i = 0; i < count; ++i) to[i] = f(left[i * step[0]], right[i * step[1]]);
          });
}

/// An axis in [-rank, rank) as one in [0, rank); fails the node otherwise.
template <class Context>
size_t normal_axis(const Context& ctx, int64_t axis, size_t rank, const char* what = "axis") {
  const auto limit = static_cast<int64_t>(rank);
  if (axis < -limit || axis >= limit)
    ctx.fail(std::string(what) + " " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  return static_cast<size_t>(axis < 0 ? axis + limit : axis);
}

/// Marks the given axes; fails on one out of range or named twice.
template <class Context>
std::array<bool, Dims::max_rank> mark_axes(const Context& ctx, const std::vector<int64_t>& axes, size_t rank) {
  std::array<bool, Dims::max_rank> marked{};
  if (rank > Dims::max_rank) ctx.fail("rank " + std::to_string(rank) + " is above the limit of 8");
  for (int64_t axis : axes) {
    bool& mark = marked[normal_axis(ctx, axis, rank)];
    if (mark) ctx.fail("axis " + std::to_string(axis) + " is named twice");
    mark = true;
  }
  return marked;
}

/// Sizes before, of, and after an axis: the view of a tensor that most axis ops need.
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
};
inline Around around(const Dims& dims, size_t axis) {
  Dims outer, inner;
  for (size_t at = 0; at < dims.rank(); ++at)
    if (at != axis) (at < axis ? outer : inner).push_back(dims[at]);
  return {outer.elements(), dims[axis], inner.elements()};
}

}  // namespace tenon::ops
