// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::split {
namespace {

/// Part sizes when none are given: equal, the last one smaller where they do not divide.
std::vector<int64_t> equal_parts(const auto& ctx, int64_t size, int64_t parts) {
  if (parts < 1 || parts != static_cast<int64_t>(ctx.outputs()))
    ctx.fail("num_outputs differs from the number of outputs");
  const int64_t each = size / parts + (size % parts != 0);
  std::vector<int64_t> sizes;
  for (int64_t part = 0, left = size; part < parts; ++part, left -= sizes.back()) sizes.push_back(std::min(each, left));
  return sizes;
}

void check_parts(const auto& ctx, const std::vector<int64_t>& sizes, std::optional<int64_t> size) {
  if (sizes.size() != ctx.outputs())
    ctx.fail(counted(sizes.size(), "part size") + " for " + counted(ctx.outputs(), "output"));
  int64_t sum = 0;
  for (int64_t part : sizes)
    if (part < 0 || __builtin_add_overflow(sum, part, &sum)) ctx.fail("a part has size " + std::to_string(part));
  if (size && sum != *size)
    ctx.fail("the parts sum to " + std::to_string(sum) + ", the axis has size " + std::to_string(*size));
}

void infer(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) {
    for (size_t output = 0; output < ctx.outputs(); ++output) ctx.set(output, ctx.dtype(0), std::nullopt);
    return;
  }
  const ir::Shape shape = *from;
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), shape.size());
  const ir::Dim& size = shape[axis];
  const int64_t outputs = static_cast<int64_t>(ctx.outputs());
  std::optional<std::vector<int64_t>> parts;
  if (ctx.has(1)) {
    parts = ctx.integers(1);
    if (parts) check_parts(ctx, *parts, size.is_constant() ? std::optional(size.value()) : std::nullopt);
  } else if (size.is_constant()) parts = equal_parts(ctx, size.value(), ctx.node().integer("num_outputs", outputs));
  const auto content = shape.size() == 1 ? ctx.content(0) : std::nullopt;
  size_t start = 0;
  for (int64_t output = 0; output < outputs; ++output) {
    ir::Shape to = shape;
    if (parts) to[axis] = (*parts)[output];
    else if (ctx.has(1)) to[axis] = ctx.unknown();
    else if (const auto even = size.exact_div(outputs)) to[axis] = *even;
    else
      to[axis] = output + 1 < outputs ? size.ceil_div(outputs) : size - size.ceil_div(outputs) * ir::Dim(outputs - 1);
    ctx.set(output, ctx.dtype(0), std::move(to));
    if (!content || !parts) continue;
    const size_t count = static_cast<size_t>((*parts)[output]);
    if (start + count <= content->size())
      ctx.set_content(output, {content->begin() + start, content->begin() + start + count});
    start += count;
  }
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", 0), x.dims().rank());
  const Around all = around(x.dims(), axis);
  const int64_t outputs = static_cast<int64_t>(ctx.outputs());
  const auto parts =
      ctx.has(1) ? ctx.integers(1) : equal_parts(ctx, all.size, ctx.node().integer("num_outputs", outputs));
  check_parts(ctx, parts, all.size);
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    int64_t start = 0;
    for (int64_t output = 0; output < outputs; ++output) {
      const int64_t run = parts[output] * all.inner;
      if (ctx.wants(output)) {
        Dims dims = x.dims();
        dims[axis] = parts[output];
        T* to = elements_of<T>(ctx.output(output, x.dtype(), dims));
        for (int64_t outer = 0; outer < all.outer; ++outer)
          std::copy_n(from + outer * all.size * all.inner + start, run, to + outer * run);
      }
      start += run;
    }
  });
}

TENON_OP("Split", 1, 2, 1, -1, infer, evaluate,
         {attr::integer("axis"), attr::integer("num_outputs").at_least(1).from(18), attr::integers("split").up_to(12)},
         Trait::moves | Trait::splits | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half);

}  // namespace
}  // namespace tenon::ops::split
