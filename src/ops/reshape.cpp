// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/inference.h"

namespace tenon::ops::reshape {
namespace {

using ir::Dim;

bool is_zero(const Dim& dim) { return dim.is_constant() && dim.value() == 0; }
bool is_minus_one(const Dim& dim) { return dim.is_constant() && dim.value() == -1; }

void infer_reshape(Inference& ctx) {
  want_integers(ctx, 1, "the new shape");
  const ir::Shape* from = ctx.shape(0);
  const auto wanted = ctx.content(1);
  if (!wanted) {
    const auto rank = known_length(ctx, 1);
    if (rank && *rank >= 0 && *rank <= static_cast<int64_t>(Dims::max_rank))
      ctx.set(0, ctx.dtype(0), unknown_shape(ctx, *rank));
    else ctx.set(0, ctx.dtype(0), std::nullopt);
    return pass_content(ctx);
  }
  const bool keep_zero = ctx.node().integer("allowzero", 0);
  ir::Shape to = *wanted;
  std::optional<size_t> open;
  std::vector<bool> copied(std::max(to.size(), from ? from->size() : 0));
  bool known = from != nullptr;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (is_minus_one(to[axis])) {
      if (open) ctx.fail("the new shape has more than one -1");
      open = axis;
    } else if (is_zero(to[axis]) && !keep_zero) {
      if (!from) to[axis] = ctx.unknown();
      else if (axis >= from->size())
        ctx.fail("the new shape copies axis " + std::to_string(axis) + ", which the input lacks");
      else to[axis] = (*from)[axis], copied[axis] = true;
    } else if (to[axis].is_constant() && to[axis].value() < 0)
      ctx.fail("the new shape has a negative size " + to[axis].str());
  }
  if (open) {
    // Axes that are copied say nothing about the others, also where they are empty.
    const auto others = [&](const ir::Shape& shape) {
      Dim product(1);
      for (size_t axis = 0; axis < shape.size(); ++axis)
        if (!copied[axis] && (&shape != &to || axis != *open)) product = product * shape[axis];
      return product;
    };
    const Dim rest = others(to);
    std::optional<Dim> size;
    if (known && !is_zero(rest)) {
      const Dim all = others(*from);
      size = all.exact_div(rest);
      if (!size && all.is_constant() && rest.is_constant())
        ctx.fail("shape " + ir::str(*from) + " does not divide into " + ir::str(*wanted));
    }
    to[*open] = size ? *size : ctx.unknown();
  } else if (known && ir::is_constant(*from) && ir::is_constant(to) && !(ir::product(*from) == ir::product(to)))
    ctx.fail("shape " + ir::str(*from) + " has other elements than " + ir::str(to));
  ctx.set(0, ctx.dtype(0), std::move(to));
  pass_content(ctx);
}

void evaluate_reshape(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const bool keep_zero = ctx.node().integer("allowzero", 0);
  Dims to;
  std::optional<size_t> open;
  std::vector<bool> copied(Dims::max_rank);
  for (int64_t size : ctx.integers(1)) {
    const size_t axis = to.rank();
    if (size == -1) {
      if (open) ctx.fail("the new shape has more than one -1");
      open = axis;
      size = 1;
    } else if (size == 0 && !keep_zero) {
      if (axis >= x.dims().rank())
        ctx.fail("the new shape copies axis " + std::to_string(axis) + ", which the input lacks");
      size = x.dims()[axis];
      copied[axis] = true;
    } else if (size < 0) ctx.fail("the new shape has a negative size " + std::to_string(size));
    to.push_back(size);
  }
  if (open) {
    const auto others = [&](const Dims& dims) {
      Dims left;
      for (size_t axis = 0; axis < dims.rank(); ++axis)
        if (!copied[axis]) left.push_back(dims[axis]);
      return left.elements();
    };
    const int64_t all = others(x.dims()), rest = others(to);
    if (rest == 0 ? all != 0 : all % rest != 0)
      ctx.fail(counted(all, "element") + " cannot be divided into " + std::to_string(rest));
    to[*open] = rest == 0 ? 0 : all / rest;
  }
  if (to.elements() != x.elements()) ctx.fail("shape " + x.dims().str() + " has other elements than " + to.str());
  ctx.set(0, x.reshaped(to));
}

/// The first axis of the second half; it may equal the rank.
size_t flatten_axis(const auto& ctx, size_t rank) {
  const int64_t axis = ctx.node().integer("axis", 1);
  return axis == static_cast<int64_t>(rank) ? rank : normal_axis(ctx, axis, rank);
}

void infer_flatten(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 2));
  const size_t axis = flatten_axis(ctx, from->size());
  ctx.set(
      0, ctx.dtype(0),
      ir::Shape{ir::product({from->begin(), from->begin() + axis}), ir::product({from->begin() + axis, from->end()})});
  pass_content(ctx);
}

void evaluate_flatten(Evaluation& ctx) {
  const Dims& dims = ctx.input(0).dims();
  const size_t axis = flatten_axis(ctx, dims.rank());
  Dims outer, inner;
  for (size_t at = 0; at < dims.rank(); ++at) (at < axis ? outer : inner).push_back(dims[at]);
  ctx.set(0, ctx.input(0).reshaped({outer.elements(), inner.elements()}));
}

void infer_squeeze(Inference& ctx) {
  want_integers(ctx, 1, "the operand of axes");
  const ir::Shape* from = ctx.shape(0);
  const auto axes = ctx.has(1) ? ctx.integers(1) : std::nullopt;
  if (!from || (ctx.has(1) && !axes)) {
    const auto fewer = known_length(ctx, 1);
    if (from && fewer && *fewer <= static_cast<int64_t>(from->size()))
      ctx.set(0, ctx.dtype(0), unknown_shape(ctx, from->size() - *fewer));
    else ctx.set(0, ctx.dtype(0), std::nullopt);
    return pass_content(ctx);
  }
  ir::Shape to;
  if (axes) {
    const auto marked = mark_axes(ctx, *axes, from->size());
    for (size_t axis = 0; axis < from->size(); ++axis) {
      const Dim& dim = (*from)[axis];
      if (!marked[axis]) to.push_back(dim);
      else if (dim.is_constant() && dim.value() != 1)
        ctx.fail("axis " + std::to_string(axis) + " has size " + dim.str() + ", not 1");
    }
  } else {
    if (!ir::is_constant(*from)) return ctx.set(0, ctx.dtype(0), std::nullopt);
    for (const Dim& dim : *from)
      if (dim.value() != 1) to.push_back(dim);
  }
  ctx.set(0, ctx.dtype(0), std::move(to));
  pass_content(ctx);
}

void evaluate_squeeze(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t rank = x.dims().rank();
  Dims to;
  if (ctx.has(1)) {
    const auto marked = mark_axes(ctx, ctx.integers(1), rank);
    for (size_t axis = 0; axis < rank; ++axis) {
      if (!marked[axis]) to.push_back(x.dims()[axis]);
      else if (x.dims()[axis] != 1)
        ctx.fail("axis " + std::to_string(axis) + " has size " + std::to_string(x.dims()[axis]) + ", not 1");
    }
  } else {
    for (int64_t size : x.dims())
      if (size != 1) to.push_back(size);
  }
  ctx.set(0, x.reshaped(to));
}

void infer_unsqueeze(Inference& ctx) {
  want_integers(ctx, 1, "the operand of axes");
  const ir::Shape* from = ctx.shape(0);
  const auto axes = ctx.integers(1);
  if (!from || !axes) {
    const auto more = known_length(ctx, 1);
    if (from && more && *more >= 0 && *more <= static_cast<int64_t>(Dims::max_rank))
      ctx.set(0, ctx.dtype(0), unknown_shape(ctx, from->size() + *more));
    else ctx.set(0, ctx.dtype(0), std::nullopt);
    return pass_content(ctx);
  }
  const size_t rank = from->size() + axes->size();
  const auto marked = mark_axes(ctx, *axes, rank);
  ir::Shape to;
  size_t next = 0;
  for (size_t axis = 0; axis < rank; ++axis) to.push_back(marked[axis] ? Dim(1) : (*from)[next++]);
  ctx.set(0, ctx.dtype(0), std::move(to));
  pass_content(ctx);
}

void evaluate_unsqueeze(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const auto axes = ctx.integers(1);
  const size_t rank = x.dims().rank() + axes.size();
  const auto marked = mark_axes(ctx, axes, rank);
  Dims to;
  size_t next = 0;
  for (size_t axis = 0; axis < rank; ++axis) to.push_back(marked[axis] ? 1 : x.dims()[next++]);
  ctx.set(0, x.reshaped(to));
}

TENON_OP("Reshape", 2, 2, 1, 1, infer_reshape, evaluate_reshape,
         {attr::flag("allowzero").from(14), attr::integers("consumed_inputs").up_to(4),
          attr::integers("shape").at_least(-1).up_to(4)},
         Trait::view | Trait::moves | Trait::same_type | Trait::same_scale | Trait::half);
TENON_OP("Flatten", 1, 1, 1, 1, infer_flatten, evaluate_flatten, {attr::integer("axis")},
         Trait::view | Trait::moves | Trait::same_type | Trait::same_scale | Trait::half);
TENON_OP("Squeeze", 1, 2, 1, 1, infer_squeeze, evaluate_squeeze, {attr::integers("axes").up_to(12)},
         Trait::view | Trait::moves | Trait::same_type | Trait::same_scale | Trait::half);
TENON_OP("Unsqueeze", 2, 2, 1, 1, infer_unsqueeze, evaluate_unsqueeze, {attr::integers("axes").up_to(12).required()},
         Trait::view | Trait::moves | Trait::same_type | Trait::same_scale | Trait::half);

}  // namespace
}  // namespace tenon::ops::reshape
