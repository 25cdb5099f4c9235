// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::slice {
namespace {

struct Cut {
  int64_t start, step, count;
};

/// Start and length of [start:end:step] on an axis of `size`, with the bounds clamped as in Python.
Cut cut(int64_t start, int64_t end, int64_t step, int64_t size) {
  const auto wrap = [&](int64_t at) { return at < 0 ? (at < -size ? -1 : at + size) : at; };
  if (step > 0) {
    start = std::clamp<int64_t>(start < -size ? 0 : wrap(start), 0, size);
    end = std::clamp<int64_t>(end < -size ? 0 : wrap(end), 0, size);
    return {start, step, end > start ? (end - start - 1) / step + 1 : 0};
  }
  start = std::clamp<int64_t>(wrap(start), -1, size - 1);
  end = std::clamp<int64_t>(wrap(end), -1, size - 1);
  // The smallest step has no negation, and reaches past any size as well as the next one.
  const int64_t back = step == INT64_MIN ? INT64_MAX : -step;
  return {start, -back, start > end ? (start - end - 1) / back + 1 : 0};
}

void check_lengths(const auto& ctx, size_t starts, size_t ends, size_t axes, size_t steps) {
  if (starts != ends || starts != axes || starts != steps) ctx.fail("starts, ends, axes and steps differ in length");
}

std::vector<int64_t> first_axes(size_t count) {
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < count; ++axis) axes.push_back(static_cast<int64_t>(axis));
  return axes;
}

/// The length of a slice whose bounds or size are symbols; nullopt where it cannot be told.
std::optional<ir::Dim> symbolic_length(const ir::Dim& start, const ir::Dim& end, int64_t step, const ir::Dim& size) {
  using ir::Dim;
  if (step == -1 && start.is_constant() && start.value() == -1 && end.is_constant() &&
      end.value() < -(int64_t{1} << 30))
    return size;
  if (step < 1) return std::nullopt;
  const bool to_end = end == size || (end.is_constant() && end.value() >= int64_t{1} << 30);
  const auto place = [&](const Dim& at) -> Dim {
    if (at.is_constant() && at.value() < -(int64_t{1} << 30)) return Dim(0);
    return at.is_constant() && at.value() < 0 ? size + at : at;
  };
  const Dim last = to_end ? size : place(end);
  const Dim length = last - place(start);
  if (length.is_constant() && length.value() < 0) return Dim(0);
  // A constant bound on a symbolic size is taken only where the clamp cannot act: from 0 or to the end.
  const bool start_fits = start.is_constant();
  const bool end_fits = to_end || !end.is_constant() || end.value() < 0;
  if (!start_fits || !end_fits) return std::nullopt;
  return length.ceil_div(step);
}

/// Types and lengths of the operands beside the data.
void check_operands(const Inference& ctx) {
  static constexpr const char* names[] = {"", "starts", "ends", "axes", "steps"};
  for (size_t at = 1; at < 5; ++at) want_integers(ctx, at, names[at]);
  const auto count = known_elements(ctx, 1);
  if (!count) return;
  for (size_t at = 2; at < 5; ++at)
    if (const auto other = known_elements(ctx, at); other && *other != *count)
      ctx.fail("starts, ends, axes and steps differ in length");
  if (const ir::Shape* from = ctx.shape(0); from && *count > static_cast<int64_t>(from->size()))
    ctx.fail(counted(*count, "start") + " for a tensor of rank " + std::to_string(from->size()));
}

void infer(Inference& ctx) {
  check_operands(ctx);
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, ctx.dtype(0), std::nullopt);
  ir::Shape to = *from;
  const auto starts = ctx.content(1), ends = ctx.content(2);
  const auto steps = ctx.has(4) ? ctx.integers(4) : std::optional(std::vector<int64_t>(starts ? starts->size() : 0, 1));
  const auto count = known_length(ctx, 1);
  auto axes = ctx.has(3) ? ctx.integers(3) : std::nullopt;
  if (!ctx.has(3) && count && *count >= 0 && *count <= static_cast<int64_t>(to.size())) axes = first_axes(*count);
  if (!axes) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, to.size()));
  mark_axes(ctx, *axes, to.size());
  if (starts && ends && steps) check_lengths(ctx, starts->size(), ends->size(), axes->size(), steps->size());
  const auto content = ctx.content(0);
  for (size_t i = 0; i < axes->size(); ++i) {
    ir::Dim& size = to[normal_axis(ctx, (*axes)[i], to.size())];
    if (!starts || !ends || !steps) {
      size = ctx.unknown();
      continue;
    }
    const ir::Dim &start = (*starts)[i], &end = (*ends)[i];
    const int64_t step = (*steps)[i];
    if (step == 0) ctx.fail("a step is 0");
    if (size.is_constant() && start.is_constant() && end.is_constant()) {
      const Cut part = cut(start.value(), end.value(), step, size.value());
      size = part.count;
      if (!content || to.size() != 1) continue;
      std::vector<ir::Dim> kept;
      for (int64_t n = 0; n < part.count; ++n) {
        const auto at = static_cast<size_t>(part.start + n * part.step);
        if (at < content->size()) kept.push_back((*content)[at]);
      }
      if (static_cast<int64_t>(kept.size()) == part.count) ctx.set_content(0, std::move(kept));
    } else {
      const auto length = symbolic_length(start, end, step, size);
      size = length ? *length : ctx.unknown();
    }
  }
  ctx.set(0, ctx.dtype(0), std::move(to));
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const auto starts = ctx.integers(1), ends = ctx.integers(2);
  const auto axes = ctx.has(3) ? ctx.integers(3) : first_axes(starts.size());
  const auto steps = ctx.has(4) ? ctx.integers(4) : std::vector<int64_t>(starts.size(), 1);
  check_lengths(ctx, starts.size(), ends.size(), axes.size(), steps.size());
  mark_axes(ctx, axes, x.dims().rank());
  Dims dims = x.dims();
  Strides strides = strides_of(x.dims());
  int64_t origin = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) ctx.fail("a step is 0");
    const size_t axis = normal_axis(ctx, axes[i], x.dims().rank());
    const Cut part = cut(starts[i], ends[i], steps[i], x.dims()[axis]);
    dims[axis] = part.count;
    if (part.count > 0) origin += part.start * strides[axis];
    strides[axis] = part.count > 1 ? strides[axis] * part.step : 0;
  }
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x) + (dims.elements() ? origin : 0);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    walk<2>(dims, {strides, strides_of(dims)}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i) to[at[1] + i] = from[at[0] + i * step[0]];
    });
  });
}

TENON_OP("Slice", 3, 5, 1, 1, infer, evaluate,
         {attr::integers("axes").up_to(9), attr::integers("ends").up_to(9).required(),
          attr::integers("starts").up_to(9).required()},
         Trait::moves | Trait::slices | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half);

}  // namespace
}  // namespace tenon::ops::slice
