// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::gather {
namespace {

/// An index in [-size, size) as one in [0, size).
int64_t place(const auto& ctx, int64_t index, int64_t size) {
  if (index < -size || index >= size)
    ctx.fail("index " + std::to_string(index) + " is outside an axis of size " + std::to_string(size));
  return index < 0 ? index + size : index;
}

void infer_gather(Inference& ctx) {
  want_integers(ctx, 1, "indices");
  const ir::Shape *data = ctx.shape(0), *indices = ctx.shape(1);
  if (!data || !indices) return ctx.set(0, ctx.dtype(0), std::nullopt);
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), data->size());
  const bool from_vector = data->size() == 1;
  ir::Shape to(data->begin(), data->begin() + axis);
  to.insert(to.end(), indices->begin(), indices->end());
  to.insert(to.end(), data->begin() + axis + 1, data->end());
  ctx.set(0, ctx.dtype(0), std::move(to));
  const auto content = ctx.content(0), at = ctx.content(1);
  if (!from_vector || !content || !at) return;
  std::vector<ir::Dim> picked;
  for (const ir::Dim& index : *at) {
    if (!index.is_constant()) return;
    picked.push_back((*content)[static_cast<size_t>(place(ctx, index.value(), static_cast<int64_t>(content->size())))]);
  }
  ctx.set_content(0, std::move(picked));
}

void evaluate_gather(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), x.dims().rank());
  const Around all = around(x.dims(), axis);
  auto indices = ctx.integers(1);
  for (int64_t& index : indices) index = place(ctx, index, all.size);
  Dims dims;
  for (size_t at = 0; at < axis; ++at) dims.push_back(x.dims()[at]);
  for (int64_t size : ctx.input(1).dims()) dims.push_back(size);
  for (size_t at = axis + 1; at < x.dims().rank(); ++at) dims.push_back(x.dims()[at]);
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    if (dims.elements() == 0) return;
    for (int64_t outer = 0; outer < all.outer; ++outer)
      for (int64_t index : indices) {
        std::copy_n(from + (outer * all.size + index) * all.inner, all.inner, to);
        to += all.inner;
      }
  });
}

/// Kernels read where indices are, also on the axes that these do not pick on.
void want_indices_inside(Inference& ctx) {
  const ir::Shape *data = ctx.shape(0), *indices = ctx.shape(1);
  if (!data || !indices) return;
  if (data->size() != indices->size())
    ctx.fail("indices of rank " + std::to_string(indices->size()) + " for data of rank " +
             std::to_string(data->size()));
  const int64_t axis = ctx.node().integer("axis", 0), rank = static_cast<int64_t>(data->size());
  for (int64_t at = 0; at < rank; ++at) {
    const ir::Dim &size = (*data)[static_cast<size_t>(at)], &asked = (*indices)[static_cast<size_t>(at)];
    if (at != (axis < 0 ? axis + rank : axis) && size.is_constant() && asked.is_constant() &&
        asked.value() > size.value())
      ctx.fail("indices " + ir::str(*indices) + " reach outside data " + ir::str(*data));
  }
}

void infer_gather_elements(Inference& ctx) {
  want_integers(ctx, 1, "indices");
  want_inside(ctx, ctx.node().integer("axis", 0));
  want_indices_inside(ctx);
  ctx.set(0, ctx.dtype(0), known_shape(ctx, 1));
}

void evaluate_gather_elements(Evaluation& ctx) {
  const Tensor &x = ctx.input(0), &where = ctx.input(1);
  const size_t rank = x.dims().rank(), axis = normal_axis(ctx, ctx.node().integer("axis", 0), rank);
  const Dims& dims = where.dims();
  if (dims.rank() != rank)
    ctx.fail("indices of rank " + std::to_string(dims.rank()) + " for data of rank " + std::to_string(rank));
  for (size_t at = 0; at < rank; ++at)
    if (at != axis && dims[at] > x.dims()[at])
      ctx.fail("indices " + dims.str() + " reach outside data " + x.dims().str());
  const auto indices = ctx.integers(1);
  Strides strides = strides_of(x.dims());
  const int64_t step_on_axis = strides[axis], size = x.dims()[axis];
  strides[axis] = 0;
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    walk<2>(dims, {strides, strides_of(dims)}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i)
        to[at[1] + i] = from[at[0] + i * step[0] + place(ctx, indices[at[1] + i], size) * step_on_axis];
    });
  });
}

void infer_gather_nd(Inference& ctx) {
  want_integers(ctx, 1, "indices");
  const ir::Shape *data = ctx.shape(0), *indices = ctx.shape(1);
  const int64_t batch = ctx.node().integer("batch_dims", 0);
  if (!data || !indices || indices->empty() || !indices->back().is_constant())
    return ctx.set(0, ctx.dtype(0), std::nullopt);
  const int64_t tuple = indices->back().value();
  if (batch < 0 || tuple < 1 || tuple > static_cast<int64_t>(data->size()) - batch ||
      batch >= static_cast<int64_t>(indices->size()))
    ctx.fail("indices " + ir::str(*indices) + " with batch_dims " + std::to_string(batch) + " do not fit data " +
             ir::str(*data));
  for (int64_t axis = 0; axis < batch; ++axis)
    if (differ((*data)[axis], (*indices)[axis])) ctx.fail("batch sizes of data and indices differ");
  ir::Shape to(indices->begin(), indices->end() - 1);
  to.insert(to.end(), data->begin() + batch + tuple, data->end());
  ctx.set(0, ctx.dtype(0), std::move(to));
}

void evaluate_gather_nd(Evaluation& ctx) {
  const Tensor &x = ctx.input(0), &where = ctx.input(1);
  const int64_t batch = ctx.node().integer("batch_dims", 0);
  const int64_t rank = static_cast<int64_t>(x.dims().rank()), places = static_cast<int64_t>(where.dims().rank());
  const int64_t tuple = places ? where.dims().back() : 0;
  if (batch < 0 || tuple < 1 || tuple > rank - batch || batch >= places)
    ctx.fail("indices " + where.dims().str() + " with batch_dims " + std::to_string(batch) + " do not fit data " +
             x.dims().str());
  Dims dims, batch_dims, slice_dims;
  for (int64_t at = 0; at + 1 < places; ++at) dims.push_back(where.dims()[at]);
  for (int64_t at = 0; at < batch; ++at) {
    if (x.dims()[at] != where.dims()[at]) ctx.fail("batch sizes of data and indices differ");
    batch_dims.push_back(x.dims()[at]);
  }
  for (int64_t at = batch + tuple; at < rank; ++at) {
    dims.push_back(x.dims()[at]);
    slice_dims.push_back(x.dims()[at]);
  }
  const auto indices = ctx.integers(1);
  const Strides strides = strides_of(x.dims());
  const int64_t slice = slice_dims.elements(), batches = batch_dims.elements();
  const int64_t tuples = static_cast<int64_t>(indices.size()) / tuple;
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    if (batches == 0) return;
    const int64_t per_batch = tuples / batches, batch_size = x.elements() / batches;
    for (int64_t n = 0; n < tuples; ++n) {
      int64_t offset = n / per_batch * batch_size;
      for (int64_t k = 0; k < tuple; ++k)
        offset += place(ctx, indices[n * tuple + k], x.dims()[batch + k]) * strides[batch + k];
      std::copy_n(from + offset, slice, to + n * slice);
    }
  });
}

TENON_OP("Gather", 2, 2, 1, 1, infer_gather, evaluate_gather, {attr::integer("axis")},
         Trait::moves | Trait::same_type | Trait::half);
TENON_OP("GatherElements", 2, 2, 1, 1, infer_gather_elements, evaluate_gather_elements, {attr::integer("axis")},
         Trait::moves | Trait::half);
TENON_OP("GatherND", 2, 2, 1, 1, infer_gather_nd, evaluate_gather_nd,
         {attr::integer("batch_dims").at_least(0).from(12)}, Trait::moves | Trait::tuples | Trait::half);

}  // namespace
}  // namespace tenon::ops::gather
