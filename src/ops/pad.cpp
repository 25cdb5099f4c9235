// SPDX-License-Identifier: Apache-2.0
#include "ops/pad.h"

#include "base/checked.h"
#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::pad {
namespace {

/// Before and after each axis, from operands that may name only some axes.
template <class Size>
std::vector<std::pair<Size, Size>> margins(const auto& ctx, const std::vector<Size>& pads,
                                           const std::optional<std::vector<int64_t>>& axes, size_t rank) {
  std::vector<std::pair<Size, Size>> all(rank, {Size(0), Size(0)});
  const size_t count = axes ? axes->size() : rank;
  if (pads.size() != 2 * count) ctx.fail(counted(pads.size(), "pad") + " for " + counted(count, "axis"));
  if (axes) mark_axes(ctx, *axes, rank);
  for (size_t i = 0; i < count; ++i) all[axes ? normal_axis(ctx, (*axes)[i], rank) : i] = {pads[i], pads[count + i]};
  return all;
}

/// Types and lengths of the operands beside the data.
void check_operands(const Inference& ctx) {
  want_integers(ctx, 1, "the operand of pads");
  want_integers(ctx, 3, "the operand of axes");
  want_one(ctx, 2, "the padding value");
  // Passes that store data in 16 bits leave the value in f32.
  const DType data = ctx.dtype(0), value = ctx.has(2) ? ctx.dtype(2) : data;
  if (value != DType::f32 || (data != DType::f16 && data != DType::bf16)) want_same_dtype(ctx, data, value);
  const ir::Shape* from = ctx.shape(0);
  const auto axes = !ctx.has(3) && from ? std::optional(static_cast<int64_t>(from->size())) : known_elements(ctx, 3);
  const auto pads = known_elements(ctx, 1);
  if (axes && pads && *pads != 2 * *axes) ctx.fail(counted(*pads, "pad") + " for " + counted(*axes, "axis"));
}

void infer(Inference& ctx) {
  check_operands(ctx);
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, ctx.dtype(0), std::nullopt);
  const auto pads = ctx.content(1);
  const auto axes = ctx.has(3) ? ctx.integers(3) : std::nullopt;
  if (!pads || (ctx.has(3) && !axes)) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, from->size()));
  const auto all = margins(ctx, *pads, axes, from->size());
  ir::Shape to;
  for (size_t axis = 0; axis < from->size(); ++axis) {
    const auto& [before, after] = all[axis];
    if (before.is_constant() && after.is_constant()) {
      const int64_t both = checked_add(before.value(), after.value(), "padding");
      if ((*from)[axis].is_constant()) checked_add((*from)[axis].value(), both, "padded size");
    }
    to.push_back((*from)[axis] + before + after);
  }
  ctx.set(0, ctx.dtype(0), std::move(to));
}

/// The source index for each place along an axis; -1 where the constant goes.
std::vector<int64_t> sources(const Evaluation& ctx, const std::string& mode, int64_t size, int64_t before,
                             int64_t padded) {
  std::vector<int64_t> from(static_cast<size_t>(padded));
  if (size == 0 && padded > 0 && mode != "constant") ctx.fail("an empty axis cannot be padded in mode " + mode);
  for (int64_t i = 0; i < padded; ++i) from[i] = pad_source(mode, i - before, size);
  return from;
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t rank = x.dims().rank();
  const std::string mode = ctx.node().text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    ctx.fail("mode is \"" + mode + "\"", "it is constant, edge, reflect or wrap");
  const auto axes = ctx.has(3) ? std::optional(ctx.integers(3)) : std::nullopt;
  const auto all = margins(ctx, ctx.integers(1), axes, rank);
  Dims dims;
  for (size_t axis = 0; axis < rank; ++axis) {
    dims.push_back(
        checked_add(x.dims()[axis], checked_add(all[axis].first, all[axis].second, "padding"), "padded size"));
    if (dims[axis] < 0)
      ctx.fail("padding leaves axis " + std::to_string(axis) + " with size " + std::to_string(dims[axis]));
  }
  if (ctx.has(2)) {
    want_same_dtype(ctx, x.dtype(), ctx.input(2).dtype());
    if (ctx.input(2).elements() != 1) ctx.fail("the padding value is not a scalar");
  }
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    if (dims.elements() == 0) return;
    const T* from = elements_of<T>(x);
    const T fill = ctx.has(2) ? *elements_of<T>(ctx.input(2)) : T{};
    std::vector<std::vector<int64_t>> maps;
    for (size_t axis = 0; axis < rank; ++axis)
      maps.push_back(sources(ctx, mode, x.dims()[axis], all[axis].first, dims[axis]));
    if (rank == 0) return void(*to = *from);
    const Strides own = strides_of(x.dims());
    const int64_t width = dims.back(), rows = dims.elements() / width;
    std::array<int64_t, Dims::max_rank> index{};
    for (int64_t row = 0; row < rows; ++row, to += width) {
      int64_t offset = 0;
      bool outside = false;
      for (size_t axis = 0; axis + 1 < rank; ++axis) {
        const int64_t at = maps[axis][index[axis]];
        outside |= at < 0;
        offset += at * own[axis];
      }
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at = maps[rank - 1][i];
        to[i] = outside || at < 0 ? fill : from[offset + at];
      }
      for (size_t axis = rank - 1; axis-- > 0;) {
        if (++index[axis] < dims[axis]) break;
        index[axis] = 0;
      }
    }
  });
}

TENON_OP("Pad", 2, 4, 1, 1, infer, evaluate,
         {attr::text("mode").one_of({"constant", "reflect", "edge", "wrap"}),
          attr::integers("paddings").up_to(1).required(), attr::integers("pads").from(2).up_to(10).required(),
          attr::real("value").up_to(10)},
         Trait::moves | Trait::same_type | Trait::same_rank | Trait::half | Trait::all_data);

}  // namespace
}  // namespace tenon::ops::pad
