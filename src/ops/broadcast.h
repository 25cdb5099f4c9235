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
inline Strides strides_of(const Dims& dims) {
  Strides strides{};
  uint64_t step = 1;
  for (size_t axis = dims.rank(); axis-- > 0; step *= static_cast<uint64_t>(dims[axis]))
    strides[axis] = static_cast<int64_t>(step);
  return strides;
}

/// Strides that read `from` as if it had the sizes `to` (aligned at the last axis; 0 where a size is stretched).
inline Strides broadcast_strides(const Dims& from, const Dims& to) {
  const Strides own = strides_of(from);
  Strides strides{};
  const size_t shift = to.rank() - from.rank();
  for (size_t axis = 0; axis < from.rank(); ++axis) strides[axis + shift] = from[axis] == 1 ? 0 : own[axis];
  return strides;
}

/// Visits all elements of `dims` for N operands of given strides: row(offsets, count, steps) once per innermost run, in
/// row-major order. Neighbouring axes that are contiguous in every operand are joined.
template <size_t N, class F>
void walk(const Dims& dims, const std::array<Strides, N>& strides, F&& row) {
  Dims sizes;
  std::array<Strides, N> steps{};
  for (size_t axis = 0; axis < dims.rank(); ++axis) {
    if (dims[axis] == 0) return;
    if (dims[axis] == 1) continue;
    bool joined = sizes.rank() > 0;
    for (size_t n = 0; n < N && joined; ++n) joined = steps[n][sizes.rank() - 1] == strides[n][axis] * dims[axis];
    if (!joined) sizes.push_back(1);
    const size_t last = sizes.rank() - 1;
    sizes[last] *= dims[axis];
    for (size_t n = 0; n < N; ++n) steps[n][last] = strides[n][axis];
  }
  if (sizes.rank() == 0) sizes.push_back(1);
  const size_t inner = sizes.rank() - 1;
  std::array<int64_t, N> offsets{}, inner_steps{};
  for (size_t n = 0; n < N; ++n) inner_steps[n] = steps[n][inner];
  std::array<int64_t, Dims::max_rank> index{};
  while (true) {
    row(offsets, sizes[inner], inner_steps);
    size_t axis = inner;
    while (axis-- > 0) {
      for (size_t n = 0; n < N; ++n) offsets[n] += steps[n][axis];
      if (++index[axis] < sizes[axis]) break;
      for (size_t n = 0; n < N; ++n) offsets[n] -= steps[n][axis] * sizes[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return;
  }
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
