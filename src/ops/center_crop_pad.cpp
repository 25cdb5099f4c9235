// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::center_crop_pad {
namespace {

/// The axes that are resized, one for each entry of input 1.
std::vector<size_t> cut_axes(const auto& ctx, size_t rank, size_t sizes) {
  std::vector<int64_t> axes = ctx.node().integers("axes");
  if (axes.empty())
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
  if (axes.size() != sizes) ctx.fail(counted(sizes, "size") + " for " + counted(axes.size(), "axis"));
  mark_axes(ctx, axes, rank);
  std::vector<size_t> list;
  for (int64_t axis : axes) list.push_back(normal_axis(ctx, axis, rank));
  return list;
}

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  if (!x) return ctx.set(0, ctx.dtype(0), std::nullopt);
  const auto sizes = ctx.content(1);
  if (!sizes) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, x->size()));
  ir::Shape y = *x;
  const auto axes = cut_axes(ctx, y.size(), sizes->size());
  for (size_t at = 0; at < axes.size(); ++at) y[axes[at]] = (*sizes)[at];
  ctx.set(0, ctx.dtype(0), std::move(y));
}

/// Larger axes lose, smaller ones gain half the difference (rounded down) before them and the rest behind.
void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const auto sizes = ctx.integers(1);
  const size_t rank = x.dims().rank();
  const auto axes = cut_axes(ctx, rank, sizes.size());
  Dims dims = x.dims();
  for (size_t at = 0; at < axes.size(); ++at) {
    if (sizes[at] < 0) ctx.fail("a size is negative");
    dims[axes[at]] = sizes[at];
  }
  const Strides from_strides = strides_of(x.dims()), to_strides = strides_of(dims);
  Dims common = dims;
  int64_t from_offset = 0, to_offset = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t more = dims[axis] - x.dims()[axis];
    common[axis] = std::min(dims[axis], x.dims()[axis]);
    (more < 0 ? from_offset : to_offset) +=
        (more < 0 ? -more : more) / 2 * (more < 0 ? from_strides : to_strides)[axis];
  }
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    const T* from = elements_of<T>(x);
    std::fill_n(to, dims.elements(), T());
    walk<2>(common, {from_strides, to_strides}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i) to[to_offset + at[1] + i * step[1]] = from[from_offset + at[0] + i * step[0]];
    });
  });
}

TENON_OP("CenterCropPad", 2, 2, 1, 1, infer, evaluate, {attr::integers("axes")});

}  // namespace
}  // namespace tenon::ops::center_crop_pad
