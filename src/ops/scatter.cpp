// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::scatter {
namespace {

int64_t place(const Evaluation& ctx, int64_t index, int64_t size) {
  if (index < -size || index >= size)
    ctx.fail("index " + std::to_string(index) + " is outside an axis of size " + std::to_string(size));
  return index < 0 ? index + size : index;
}

enum class Reduction { none, add, mul, max, min };

Reduction reduction_of(const Evaluation& ctx) {
  const std::string name = ctx.node().text("reduction", "none");
  if (name == "none") return Reduction::none;
  if (name == "add") return Reduction::add;
  if (name == "mul") return Reduction::mul;
  if (name == "max") return Reduction::max;
  if (name == "min") return Reduction::min;
  ctx.fail("reduction is \"" + name + "\"", "it is none, add, mul, max or min");
}

template <class T>
T reduce(Reduction how, T old, T update) {
  using W = Wide<T>;
  const W a = static_cast<W>(old), b = static_cast<W>(update);
  switch (how) {
    case Reduction::add: return static_cast<T>(scalar::add(a, b));
    case Reduction::mul: return static_cast<T>(scalar::mul(a, b));
    case Reduction::max: return static_cast<T>(scalar::maximum(a, b));
    case Reduction::min: return static_cast<T>(scalar::minimum(a, b));
    default: return update;
  }
}

/// Calls body(copy of data, updates, combine) with the element type that the reduction needs.
template <class F>
void scatter(Evaluation& ctx, F&& body) {
  const Tensor &data = ctx.input(0), &updates = ctx.input(2);
  want_same_dtype(ctx, data.dtype(), updates.dtype());
  const Reduction how = reduction_of(ctx);
  const auto start = [&]<class T>(Type<T>) {
    T* to = elements_of<T>(ctx.output(0, data.dtype(), data.dims()));
    if (to != elements_of<T>(data)) std::copy_n(elements_of<T>(data), data.elements(), to);
    return to;
  };
  if (how == Reduction::none)
    dispatch_moved(ctx, data.dtype(), [&]<class T>(Type<T> type) {
      body(start(type), elements_of<T>(updates), [](T& old, const T& update) { old = update; });
    });
  else
    dispatch<Numbers>(ctx, data.dtype(), [&]<class T>(Type<T> type) {
      body(start(type), elements_of<T>(updates), [how](T& old, const T& update) { old = reduce(how, old, update); });
    });
}

void infer_elements(Inference& ctx) {
  want_integers(ctx, 1, "indices");
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(2));
  want_inside(ctx, ctx.node().integer("axis", 0));
  const ir::Shape *indices = ctx.shape(1), *updates = ctx.shape(2);
  if (indices && updates && !may_agree(*indices, *updates))
    ctx.fail("indices " + ir::str(*indices) + " and updates " + ir::str(*updates) + " have different shapes");
  infer_same(ctx);
}

void infer_nd(Inference& ctx) {
  want_integers(ctx, 1, "indices");
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(2));
  infer_same(ctx);
  const ir::Shape *data = ctx.shape(0), *indices = ctx.shape(1), *updates = ctx.shape(2);
  if (indices && indices->empty()) ctx.fail("indices are a scalar");
  if (!data || !indices || !indices->back().is_constant()) return;
  const int64_t tuple = indices->back().value();
  if (tuple < 1 || tuple > static_cast<int64_t>(data->size()))
    ctx.fail("indices " + ir::str(*indices) + " do not fit data " + ir::str(*data));
  ir::Shape wanted(indices->begin(), indices->end() - 1);
  wanted.insert(wanted.end(), data->begin() + tuple, data->end());
  if (updates && !may_agree(*updates, wanted))
    ctx.fail("updates have the shape " + ir::str(*updates) + ", expected " + ir::str(wanted));
}

void evaluate_elements(Evaluation& ctx) {
  const Dims data = ctx.input(0).dims(), dims = ctx.input(1).dims();
  const size_t rank = data.rank(), axis = normal_axis(ctx, ctx.node().integer("axis", 0), rank);
  if (dims.rank() != rank || ctx.input(2).dims() != dims)
    ctx.fail("data " + data.str() + ", indices " + dims.str() + " and updates " + ctx.input(2).dims().str() +
             " do not fit");
  for (size_t at = 0; at < rank; ++at)
    if (at != axis && dims[at] > data[at]) ctx.fail("indices " + dims.str() + " reach outside data " + data.str());
  const auto indices = ctx.integers(1);
  Strides strides = strides_of(data);
  const int64_t step_on_axis = strides[axis], size = data[axis];
  strides[axis] = 0;
  scatter(ctx, [&](auto* to, const auto* from, auto&& combine) {
    walk<2>(dims, {strides, strides_of(dims)}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i)
        combine(to[at[0] + i * step[0] + place(ctx, indices[at[1] + i], size) * step_on_axis], from[at[1] + i]);
    });
  });
}

void evaluate_nd(Evaluation& ctx) {
  const Dims data = ctx.input(0).dims(), where = ctx.input(1).dims(), given = ctx.input(2).dims();
  const int64_t rank = static_cast<int64_t>(data.rank());
  const int64_t tuple = where.rank() ? where.back() : 0;
  if (tuple < 1 || tuple > rank) ctx.fail("indices " + where.str() + " do not fit data " + data.str());
  Dims wanted, slice_dims;
  for (size_t at = 0; at + 1 < where.rank(); ++at) wanted.push_back(where[at]);
  for (int64_t at = tuple; at < rank; ++at) {
    wanted.push_back(data[at]);
    slice_dims.push_back(data[at]);
  }
  if (given != wanted) ctx.fail("updates have shape " + given.str() + ", not " + wanted.str());
  const auto indices = ctx.integers(1);
  const Strides strides = strides_of(data);
  const int64_t slice = slice_dims.elements(), tuples = static_cast<int64_t>(indices.size()) / tuple;
  scatter(ctx, [&](auto* to, const auto* from, auto&& combine) {
    for (int64_t n = 0; n < tuples; ++n) {
      int64_t offset = 0;
      for (int64_t k = 0; k < tuple; ++k) offset += place(ctx, indices[n * tuple + k], data[k]) * strides[k];
      for (int64_t i = 0; i < slice; ++i) combine(to[offset + i], from[n * slice + i]);
    }
  });
}

TENON_OP("ScatterElements", 3, 3, 1, 1, infer_elements, evaluate_elements,
         {attr::integer("axis"), attr::text("reduction").one_of({"none", "add", "mul", "max", "min"}).from(16)},
         Trait::updates);
TENON_OP("ScatterND", 3, 3, 1, 1, infer_nd, evaluate_nd,
         {attr::text("reduction").one_of({"none", "add", "mul", "max", "min"}).from(16)},
         Trait::tuples | Trait::updates);

}  // namespace
}  // namespace tenon::ops::scatter
