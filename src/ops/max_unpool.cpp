// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/window.h"

namespace tenon::ops::max_unpool {
namespace {

/// The sizes a pool with these windows came from.
template <class Context>
ir::Shape unpooled(Context& ctx, const ir::Shape& x) {
  if (x.size() < 3) ctx.fail("the input has rank " + std::to_string(x.size()) + "; at least 3 is needed");
  const std::vector<int64_t> kernel = ctx.node().integers("kernel_shape");
  if (kernel.size() != x.size() - 2) ctx.fail("kernel_shape has " + counted(kernel.size(), "entry"));
  const Window window = read_window(ctx, kernel);
  ir::Shape y{x[0], x[1]};
  for (size_t axis = 0; axis < kernel.size(); ++axis)
    y.push_back((x[axis + 2] - 1) * window.strides[axis] + (kernel[axis] - window.begin[axis] - window.end[axis]));
  return y;
}

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  if (!x) return ctx.set(0, ctx.dtype(0), std::nullopt);
  if (!ctx.has(2)) return ctx.set(0, ctx.dtype(0), unpooled(ctx, *x));
  const auto sizes = ctx.content(2);
  ctx.set(0, ctx.dtype(0), sizes ? ir::Shape(*sizes) : unknown_shape(ctx, x->size()));
}

/// Indices count in the tensor of inferred sizes; a larger output_shape pads behind it.
void evaluate(Evaluation& ctx) {
  const Tensor &x = ctx.input(0), &where = ctx.input(1);
  const Dims inner = dims_of(unpooled(ctx, shape_of(x.dims())));
  if (!(where.dims() == x.dims())) ctx.fail("indices " + where.dims().str() + " for an input " + x.dims().str());
  Dims dims = inner;
  if (ctx.has(2)) {
    dims = Dims(ctx.integers(2));
    if (dims.rank() != inner.rank()) ctx.fail("output_shape has " + counted(dims.rank(), "entry"));
    for (size_t axis = 0; axis < dims.rank(); ++axis)
      if (dims[axis] < inner[axis]) ctx.fail("output_shape " + dims.str() + " is smaller than " + inner.str());
  }
  const auto indices = ctx.integers(1);
  const int64_t limit = inner.elements();
  const Strides from = strides_of(inner), to = strides_of(dims);
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* out = elements_of<T>(ctx.output(0, x.dtype(), dims));
    std::fill_n(out, dims.elements(), T());
    for (size_t at = 0; at < indices.size(); ++at) {
      if (indices[at] < 0 || indices[at] >= limit)
        ctx.fail("index " + std::to_string(indices[at]) + " is outside " + inner.str());
      int64_t offset = 0;
      for (size_t axis = 0; axis < inner.rank(); ++axis) offset += indices[at] / from[axis] % inner[axis] * to[axis];
      out[offset] = elements_of<T>(x)[at];
    }
  });
}

TENON_OP("MaxUnpool", 2, 3, 1, 1, infer, evaluate,
         {attr::integers("kernel_shape").at_least(1).required(), attr::integers("pads").at_least(0),
          attr::integers("strides").at_least(1)});

}  // namespace
}  // namespace tenon::ops::max_unpool
