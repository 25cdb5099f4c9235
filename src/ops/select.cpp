// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::select {
namespace {

void infer_one_hot(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, ctx.dtype(2), std::nullopt);
  ir::Shape to = *from;
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", -1), to.size() + 1);
  const auto depth = ctx.content(1);
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis), depth && depth->size() == 1 ? (*depth)[0] : ctx.unknown());
  ctx.set(0, ctx.dtype(2), std::move(to));
}

/// Indices outside [-depth, depth) give a line of off values.
void one_hot(Evaluation& ctx) {
  const Tensor &indices = ctx.input(0), &depth_of = ctx.input(1), &values = ctx.input(2);
  if (depth_of.elements() != 1 || values.dims() != Dims{2})
    ctx.fail("depth must be a scalar and values hold two elements");
  int64_t depth = 0;
  dispatch<Numbers>(ctx, depth_of.dtype(),
                    [&]<class T>(Type<T>) { depth = static_cast<int64_t>(*depth_of.data<T>()); });
  if (depth < 0) ctx.fail("depth is " + std::to_string(depth));
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", -1), indices.dims().rank() + 1);
  Dims dims = indices.dims();
  dims.insert(axis, depth);
  const Around all = around(dims, axis);
  dispatch_moved(ctx, values.dtype(), [&]<class V>(Type<V>) {
    const V *off = elements_of<V>(values), *on = off + 1;
    V* to = elements_of<V>(ctx.output(0, values.dtype(), dims));
    std::fill_n(to, dims.elements(), *off);
    dispatch<Numbers>(ctx, indices.dtype(), [&]<class T>(Type<T>) {
      for (int64_t outer = 0; outer < all.outer; ++outer)
        for (int64_t inner = 0; inner < all.inner; ++inner) {
          auto index = static_cast<int64_t>(indices.data<T>()[outer * all.inner + inner]);
          if (index < 0) index += depth;
          if (index >= 0 && index < depth) to[(outer * depth + index) * all.inner + inner] = *on;
        }
    });
  });
}

void infer_nonzero(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  const ir::Dim rank = from ? ir::Dim(static_cast<int64_t>(from->size())) : ctx.unknown();
  ctx.set(0, DType::i64, ir::Shape{rank, ctx.unknown()});
}

void nonzero(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t rank = static_cast<int64_t>(x.dims().rank()), count = x.elements();
  dispatch<NumbersAndBool>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    std::vector<int64_t> found;
    for (int64_t i = 0; i < count; ++i)
      if (static_cast<Wide<T>>(x.data<T>()[i]) != Wide<T>(0)) found.push_back(i);
    const auto hits = static_cast<int64_t>(found.size());
    int64_t* to = ctx.output(0, DType::i64, {rank, hits}).template data<int64_t>();
    const Strides strides = strides_of(x.dims());
    for (int64_t axis = 0; axis < rank; ++axis)
      for (int64_t n = 0; n < hits; ++n) to[axis * hits + n] = found[n] / strides[axis] % x.dims()[axis];
  });
}

void infer_compress(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!ctx.node().has("axis")) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 1));
  if (!from) return ctx.set(0, ctx.dtype(0), std::nullopt);
  ir::Shape to = *from;
  to[normal_axis(ctx, ctx.node().integer("axis", 0), to.size())] = ctx.unknown();
  ctx.set(0, ctx.dtype(0), std::move(to));
}

/// Keeps the slices whose condition is true; a condition shorter than the axis drops the rest.
void compress(Evaluation& ctx) {
  const Tensor& condition = ctx.input(1);
  if (condition.dtype() != DType::boolean || condition.dims().rank() != 1)
    ctx.fail("the condition is not a boolean vector");
  const Tensor x = ctx.node().has("axis") ? ctx.input(0) : ctx.input(0).reshaped({ctx.input(0).elements()});
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), x.dims().rank());
  const Around all = around(x.dims(), axis);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition.elements(); ++i)
    if (condition.data<Bool>()[i]) {
      if (i >= all.size)
        ctx.fail("the condition keeps element " + std::to_string(i) + " of an axis of size " +
                 std::to_string(all.size));
      kept.push_back(i);
    }
  Dims dims = x.dims();
  dims[axis] = static_cast<int64_t>(kept.size());
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    if (x.elements() == 0) return;
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t i : kept) to = std::copy_n(from + (outer * all.size + i) * all.inner, all.inner, to);
  });
}

/// Keeps the triangle on one side of diagonal k.
void trilu(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t rank = x.dims().rank();
  if (rank < 2) ctx.fail("the input has rank " + std::to_string(rank) + ", not 2 or more");
  const bool upper = ctx.node().integer("upper", 1);
  const auto given = ctx.has(1) ? ctx.integers(1) : std::vector<int64_t>{0};
  if (given.size() != 1) ctx.fail("k is not a scalar");
  const int64_t rows = x.dims()[rank - 2], columns = x.dims()[rank - 1],
                k = std::clamp(given[0], -rows - 1, columns + 1);
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), x.dims()));
    const int64_t count = x.elements();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t column = i % columns, row = i / columns % rows;
      to[i] = (upper ? column - row >= k : column - row <= k) ? from[i] : T{};
    }
  });
}

TENON_OP("OneHot", 3, 3, 1, 1, infer_one_hot, one_hot, {attr::integer("axis")});
TENON_OP("NonZero", 1, 1, 1, 1, infer_nonzero, nonzero, {}, Trait::finds);
TENON_OP("Compress", 2, 2, 1, 1, infer_compress, compress, {attr::integer("axis")}, Trait::finds);
TENON_OP("Trilu", 1, 2, 1, 1, infer_same, trilu, {attr::flag("upper")});

}  // namespace
}  // namespace tenon::ops::select
