// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::expand {
namespace {

void infer_expand(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  const auto wanted = ctx.content(1);
  if (!from || !wanted) {
    const auto length = known_length(ctx, 1);
    if (from && length && *length >= 0 && *length <= static_cast<int64_t>(Dims::max_rank))
      return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, std::max(from->size(), static_cast<size_t>(*length))));
    return ctx.set(0, ctx.dtype(0), std::nullopt);
  }
  for (const ir::Dim& dim : *wanted)
    if (dim.is_constant() && dim.value() < 0) ctx.fail("the new shape has a negative size " + dim.str());
  ctx.set(0, ctx.dtype(0), broadcast(ctx, *from, *wanted));
  const auto content = ctx.content(0);
  if (content && content->size() == 1 && wanted->size() == 1 && (*wanted)[0].is_constant() &&
      (*wanted)[0].value() <= static_cast<int64_t>(content_limit))
    ctx.set_content(0, std::vector<ir::Dim>(std::max<int64_t>((*wanted)[0].value(), 1), (*content)[0]));
}

void evaluate_expand(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const auto wanted = ctx.integers(1);
  for (int64_t size : wanted)
    if (size < 0) ctx.fail("the new shape has a negative size " + std::to_string(size));
  const Dims dims = broadcast(ctx, x.dims(), Dims(wanted));
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    walk<2>(dims, {broadcast_strides(x.dims(), dims), strides_of(dims)},
            [&](const auto& at, int64_t count, const auto& step) {
              for (int64_t i = 0; i < count; ++i) to[at[1] + i] = from[at[0] + i * step[0]];
            });
  });
}

void infer_tile(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, ctx.dtype(0), std::nullopt);
  const auto repeats = ctx.content(1);
  if (!repeats) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, from->size()));
  if (repeats->size() != from->size())
    ctx.fail(std::to_string(repeats->size()) + " repeats for a tensor of rank " + std::to_string(from->size()));
  ir::Shape to;
  for (size_t axis = 0; axis < from->size(); ++axis) {
    const ir::Dim &size = (*from)[axis], &times = (*repeats)[axis];
    if (times.is_constant() && times.value() < 0) ctx.fail("repeats has a negative count " + times.str());
    if (size.is_constant() && times.is_constant()) checked_mul(size.value(), times.value(), "tiled size");
    to.push_back(size * times);
  }
  ctx.set(0, ctx.dtype(0), std::move(to));
}

void evaluate_tile(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const auto repeats = ctx.integers(1);
  const size_t rank = x.dims().rank();
  if (repeats.size() != rank)
    ctx.fail(std::to_string(repeats.size()) + " repeats for a tensor of rank " + std::to_string(rank));
  Dims dims = x.dims();
  for (size_t axis = 0; axis < rank; ++axis) {
    if (repeats[axis] < 0) ctx.fail("repeats has a negative count " + std::to_string(repeats[axis]));
    dims[axis] = checked_mul(dims[axis], repeats[axis], "tiled size");
  }
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    const Strides own = strides_of(x.dims());
    const int64_t total = dims.elements();
    const int64_t width = rank ? x.dims().back() : 1, times = rank ? repeats.back() : 1;
    std::array<int64_t, Dims::max_rank> index{};
    for (int64_t done = 0; done < total;) {
      int64_t offset = 0;
      for (size_t axis = 0; axis + 1 < rank; ++axis) offset += index[axis] % x.dims()[axis] * own[axis];
      for (int64_t n = 0; n < times; ++n, done += width) std::copy_n(from + offset, width, to + done);
      for (size_t axis = rank > 0 ? rank - 1 : 0; axis-- > 0;) {
        if (++index[axis] < dims[axis]) break;
        index[axis] = 0;
      }
    }
  });
}

TENON_OP("Expand", 2, 2, 1, 1, infer_expand, evaluate_expand, {},
         Trait::moves | Trait::same_type | Trait::same_scale | Trait::half);
TENON_OP("Tile", 2, 2, 1, 1, infer_tile, evaluate_tile, {}, Trait::moves | Trait::same_type | Trait::same_scale);

}  // namespace
}  // namespace tenon::ops::expand
