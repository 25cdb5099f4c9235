// SPDX-License-Identifier: Apache-2.0
#include "ops/sequence.h"

#include "ops/broadcast.h"
#include "ops/dispatch.h"

namespace tenon::ops::sequence {
namespace {

void infer_construct(Inference& ctx) { set_sequence(ctx, 0, ctx.dtype(0)); }

void evaluate_construct(Evaluation& ctx) {
  std::vector<Tensor> items;
  for (size_t at = 0; at < ctx.inputs(); ++at) items.push_back(ctx.input(at).copy());
  ctx.set(0, Tensor::of_sequence(std::move(items)));
}

void infer_empty(Inference& ctx) { set_sequence(ctx, 0, static_cast<DType>(ctx.node().integer("dtype", 1))); }
void evaluate_empty(Evaluation& ctx) { ctx.set(0, Tensor::of_sequence({})); }

void infer_length(Inference& ctx) { ctx.set(0, DType::i64, ir::Shape{}); }
void evaluate_length(Evaluation& ctx) {
  const auto length = static_cast<int64_t>(items_of(ctx, 0).size());
  *ctx.output(0, DType::i64, {}).data<int64_t>() = length;
}

/// The place an input names, counted from the end where negative; `limit` itself is allowed for insertion.
size_t position(Evaluation& ctx, size_t input, size_t limit, bool insertion) {
  const std::vector<int64_t> place = ctx.integers(input);
  const auto size = static_cast<int64_t>(limit);
  if (place.size() != 1 || place[0] < -size || place[0] > (insertion ? size : size - 1))
    ctx.fail("position " + (place.size() == 1 ? std::to_string(place[0]) : "?") + " is outside a sequence of " +
             std::to_string(limit));
  return static_cast<size_t>(place[0] < 0 ? place[0] + size : place[0]);
}

void infer_at(Inference& ctx) { ctx.set(0, item_type(ctx, 0), std::nullopt); }
void evaluate_at(Evaluation& ctx) {
  const std::vector<Tensor>& items = items_of(ctx, 0);
  ctx.set(0, items[position(ctx, 1, items.size(), false)].copy());
}

void infer_insert(Inference& ctx) { set_sequence(ctx, 0, ctx.dtype(1)); }
void evaluate_insert(Evaluation& ctx) {
  std::vector<Tensor> items = items_of(ctx, 0);
  if (!items.empty() && items[0].dtype() != ctx.input(1).dtype())
    ctx.fail("the tensor's element type differs from the sequence's");
  const size_t at = ctx.has(2) ? position(ctx, 2, items.size(), true) : items.size();
  items.insert(items.begin() + static_cast<int64_t>(at), ctx.input(1).copy());
  ctx.set(0, Tensor::of_sequence(std::move(items)));
}

void infer_erase(Inference& ctx) { set_sequence(ctx, 0, item_type(ctx, 0)); }
void evaluate_erase(Evaluation& ctx) {
  std::vector<Tensor> items = items_of(ctx, 0);
  if (items.empty()) ctx.fail("the sequence is empty");
  const size_t at = ctx.has(1) ? position(ctx, 1, items.size(), false) : items.size() - 1;
  items.erase(items.begin() + static_cast<int64_t>(at));
  ctx.set(0, Tensor::of_sequence(std::move(items)));
}

/// Entries [from, from + count) along an axis.
Tensor part(Evaluation& ctx, const Tensor& tensor, size_t axis, int64_t from, int64_t count) {
  const Around parts = around(tensor.dims(), axis);
  Dims dims = tensor.dims();
  dims[axis] = count;
  Tensor to(tensor.dtype(), dims);
  dispatch_moved(ctx, tensor.dtype(), [&]<class T>(Type<T>) {
    for (int64_t outer = 0; outer < parts.outer; ++outer)
      std::copy_n(elements_of<T>(tensor) + (outer * parts.size + from) * parts.inner, count * parts.inner,
                  elements_of<T>(to) + outer * count * parts.inner);
  });
  return to;
}

void infer_split(Inference& ctx) { set_sequence(ctx, 0, ctx.dtype(0)); }

void evaluate_split(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), x.dims().rank());
  const int64_t size = x.dims()[axis];
  std::vector<int64_t> counts;
  bool drop = false;
  if (!ctx.has(1)) {
    counts.assign(static_cast<size_t>(size), 1);
    drop = ctx.node().integer("keepdims", 1) == 0;
  } else if (counts = ctx.integers(1); ctx.input(1).dims().rank() == 0) {
    const int64_t each = counts[0];
    if (each < 1) ctx.fail("the split size is " + std::to_string(each));
    counts.clear();
    for (int64_t at = 0; at < size; at += counts.back()) counts.push_back(std::min(each, size - at));
  }
  std::vector<Tensor> items;
  int64_t at = 0;
  for (int64_t count : counts) {
    if (count < 0 || count > size - at) ctx.fail("the split sizes exceed the axis of " + std::to_string(size));
    Tensor item = part(ctx, x, axis, at, count);
    if (drop) {
      Dims dims = item.dims();
      dims.erase(axis);
      item = item.reshaped(dims);
    }
    items.push_back(std::move(item));
    at += count;
  }
  if (at != size) ctx.fail("the split sizes add up to " + std::to_string(at) + " of " + std::to_string(size));
  ctx.set(0, Tensor::of_sequence(std::move(items)));
}

void infer_concat(Inference& ctx) { ctx.set(0, item_type(ctx, 0), std::nullopt); }

void evaluate_concat(Evaluation& ctx) {
  const std::vector<Tensor>& items = items_of(ctx, 0);
  if (items.empty()) ctx.fail("the sequence is empty");
  const bool fresh = ctx.node().integer("new_axis", 0) != 0;
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), items[0].dims().rank() + fresh);
  std::vector<Dims> sizes;
  Dims dims;
  for (const Tensor& item : items) {
    Dims own = item.dims();
    if (item.dims().rank() != items[0].dims().rank() || item.dtype() != items[0].dtype())
      ctx.fail("the items are of different types or ranks");
    if (fresh) own.insert(axis, 1);
    if (sizes.empty()) dims = own;
    else dims[axis] += own[axis];
    sizes.push_back(own);
    for (size_t at = 0; at < own.rank(); ++at)
      if (at != axis && own[at] != dims[at])
        ctx.fail("items " + items[0].dims().str() + " and " + item.dims().str() + " do not fit");
  }
  const Around all = around(dims, axis);
  Tensor& joined = ctx.output(0, items[0].dtype(), dims);
  dispatch_moved(ctx, joined.dtype(), [&]<class T>(Type<T>) {
    int64_t at = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const int64_t count = sizes[i][axis];
      for (int64_t outer = 0; outer < all.outer; ++outer)
        std::copy_n(elements_of<T>(items[i]) + outer * count * all.inner, count * all.inner,
                    elements_of<T>(joined) + (outer * all.size + at) * all.inner);
      at += count;
    }
  });
}

TENON_OP("SequenceConstruct", 1, -1, 1, 1, infer_construct, evaluate_construct);
TENON_OP("SequenceEmpty", 0, 0, 1, 1, infer_empty, evaluate_empty, {attr::element_type("dtype")});
TENON_OP("SequenceLength", 1, 1, 1, 1, infer_length, evaluate_length);
TENON_OP("SequenceAt", 2, 2, 1, 1, infer_at, evaluate_at);
TENON_OP("SequenceInsert", 2, 3, 1, 1, infer_insert, evaluate_insert);
TENON_OP("SequenceErase", 1, 2, 1, 1, infer_erase, evaluate_erase);
TENON_OP("SplitToSequence", 1, 2, 1, 1, infer_split, evaluate_split, {attr::integer("axis"), attr::flag("keepdims")});
TENON_OP("ConcatFromSequence", 1, 1, 1, 1, infer_concat, evaluate_concat,
         {attr::integer("axis").required(), attr::flag("new_axis")});

}  // namespace
}  // namespace tenon::ops::sequence
