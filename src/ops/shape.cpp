// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/inference.h"

namespace tenon::ops::shape {
namespace {

/// The axes [first, last) that attributes start and end name; out-of-range ones are clamped.
std::pair<size_t, size_t> span_of(const ir::Node& node, size_t rank) {
  const auto limit = static_cast<int64_t>(rank);
  const auto place = [&](int64_t axis) {
    return static_cast<size_t>(std::clamp<int64_t>(axis < 0 ? axis + limit : axis, 0, limit));
  };
  const size_t first = place(node.integer("start", 0)), last = place(node.integer("end", limit));
  return {first, std::max(first, last)};
}

void infer_shape(Inference& ctx) {
  const ir::Shape* shape = ctx.shape(0);
  if (!shape) return ctx.set(0, DType::i64, unknown_shape(ctx, 1));
  const auto [first, last] = span_of(ctx.node(), shape->size());
  std::vector<ir::Dim> content(shape->begin() + first, shape->begin() + last);
  ctx.set(0, DType::i64, ir::Shape{static_cast<int64_t>(content.size())});
  ctx.set_content(0, std::move(content));
}

void evaluate_shape(Evaluation& ctx) {
  const Dims& dims = ctx.input(0).dims();
  const auto [first, last] = span_of(ctx.node(), dims.rank());
  std::copy(dims.begin() + first, dims.begin() + last,
            ctx.output(0, DType::i64, {static_cast<int64_t>(last - first)}).data<int64_t>());
}

void infer_size(Inference& ctx) {
  ctx.set(0, DType::i64, ir::Shape{});
  if (const ir::Shape* shape = ctx.shape(0)) ctx.set_content(0, {ir::product(*shape)});
}

void evaluate_size(Evaluation& ctx) { *ctx.output(0, DType::i64, {}).data<int64_t>() = ctx.input(0).elements(); }

TENON_OP("Shape", 1, 1, 1, 1, infer_shape, evaluate_shape,
         {attr::integer("end").from(15), attr::integer("start").from(15)});
TENON_OP("Size", 1, 1, 1, 1, infer_size, evaluate_size);

}  // namespace
}  // namespace tenon::ops::shape
