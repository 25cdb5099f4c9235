// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/scalar.h"

namespace tenon::ops::fill {
namespace {

/// The one-element tensor of the attribute value; a float 0 without it.
Tensor fill_value(const auto& ctx) {
  const auto found = ctx.node().attributes.find("value");
  if (found == ctx.node().attributes.end()) return Tensor(DType::f32, {1});
  const Tensor* value = std::get_if<Tensor>(&found->second);
  if (!value || value->elements() != 1) ctx.fail("the attribute value is not a tensor of one element");
  return *value;
}

void infer_constant(Inference& ctx) {
  const Tensor value = fill_value(ctx);
  const auto shape = ctx.content(0);
  if (!shape) {
    const auto rank = known_length(ctx, 0);
    if (rank && *rank >= 0 && *rank <= static_cast<int64_t>(Dims::max_rank))
      ctx.set(0, value.dtype(), unknown_shape(ctx, *rank));
    else ctx.set(0, value.dtype(), std::nullopt);
    return;
  }
  for (const ir::Dim& dim : *shape)
    if (dim.is_constant() && dim.value() < 0) ctx.fail("the shape has a negative size " + dim.str());
  ctx.set(0, value.dtype(), *shape);
  if (shape->size() > 1 || (shape->size() == 1 && !(*shape)[0].is_constant())) return;
  const int64_t count = shape->empty() ? 1 : (*shape)[0].value();
  if (count > static_cast<int64_t>(content_limit)) return;
  if (value.dtype() == DType::i64) ctx.set_content(0, std::vector<ir::Dim>(count, *value.data<int64_t>()));
  if (value.dtype() == DType::i32) ctx.set_content(0, std::vector<ir::Dim>(count, *value.data<int32_t>()));
}

void evaluate_constant(Evaluation& ctx) {
  const Tensor value = fill_value(ctx);
  const auto sizes = ctx.integers(0);
  for (int64_t size : sizes)
    if (size < 0) ctx.fail("the shape has a negative size " + std::to_string(size));
  const Dims dims(sizes);
  dispatch_moved(ctx, value.dtype(), [&]<class T>(Type<T>) {
    std::fill_n(elements_of<T>(ctx.output(0, value.dtype(), dims)), dims.elements(), *elements_of<T>(value));
  });
}

using RangeTypes = Types<float, double, Half, BFloat, int16_t, int32_t, int64_t>;

void infer_range(Inference& ctx) {
  const auto start = ctx.content(0), limit = ctx.content(1), step = ctx.content(2);
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(2));
  std::optional<ir::Dim> length;
  if (start && limit && step && start->size() == 1 && limit->size() == 1 && step->size() == 1 &&
      (*step)[0].is_constant()) {
    const int64_t by = (*step)[0].value();
    if (by == 0) ctx.fail("the step is 0");
    const ir::Dim span = (*limit)[0] - (*start)[0];
    if (span.is_constant()) {
      const int64_t way = span.value();
      length = (way > 0) == (by > 0) && way != 0 ? ir::Dim((way - (by > 0 ? 1 : -1)) / by + 1) : ir::Dim(0);
      if (way > 0 && by > 0 && length->value() <= 64) {
        std::vector<ir::Dim> content;
        for (int64_t i = 0; i < length->value(); ++i) content.push_back((*start)[0] + ir::Dim(i * by));
        ctx.set(0, ctx.dtype(0), ir::Shape{*length});
        return ctx.set_content(0, std::move(content));
      }
    } else if (by > 0) length = span.ceil_div(by);
  }
  ctx.set(0, ctx.dtype(0), ir::Shape{length ? *length : ctx.unknown()});
}

void evaluate_range(Evaluation& ctx) {
  const DType type = ctx.input(0).dtype();
  for (size_t input = 0; input < 3; ++input) {
    want_same_dtype(ctx, type, ctx.input(input).dtype());
    if (ctx.input(input).elements() != 1) ctx.fail("start, limit and delta must be scalars");
  }
  dispatch<RangeTypes>(ctx, type, [&]<class T>(Type<T>) {
    using W = Wide<T>;
    const W start = *ctx.input(0).template data<T>(), limit = *ctx.input(1).template data<T>(),
            step = *ctx.input(2).template data<T>();
    if (!(step != 0)) ctx.fail("the step is 0");
    int64_t count = 0;
    if constexpr (std::is_integral_v<W>) {
      const bool any = step > 0 ? limit > start : limit < start;
      const uint64_t way = step > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                    : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
      const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
      if (any) count = scalar::convert<int64_t>(std::ceil(static_cast<double>((way - 1) / by + 1)));
    } else {
      const double length =
          std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(step));
      if (!std::isfinite(length)) ctx.fail("the range is not finite");
      count = std::max<int64_t>(0, scalar::convert<int64_t>(length));
    }
    T* to = ctx.output(0, type, {count}).template data<T>();
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(scalar::add<W>(start, scalar::mul<W>(static_cast<W>(i), step)));
  });
}

DType eye_type(const auto& ctx, DType like) {
  return static_cast<DType>(ctx.node().integer("dtype", static_cast<int64_t>(like)));
}

void infer_eye(Inference& ctx) { ctx.set(0, eye_type(ctx, ctx.dtype(0)), known_shape(ctx, 0)); }

void evaluate_eye(Evaluation& ctx) {
  const Dims& dims = ctx.input(0).dims();
  const DType type = eye_type(ctx, ctx.input(0).dtype());
  if (dims.rank() != 2) ctx.fail("the input has rank " + std::to_string(dims.rank()) + ", not 2");
  const int64_t k = ctx.node().integer("k", 0);
  dispatch<NumbersAndBool>(ctx, type, [&]<class T>(Type<T>) {
    T* to = ctx.output(0, type, dims).template data<T>();
    for (int64_t row = 0; row < dims[0]; ++row)
      for (int64_t column = 0; column < dims[1]; ++column)
        to[row * dims[1] + column] = static_cast<T>(column - row == k);
  });
}

TENON_OP("ConstantOfShape", 1, 1, 1, 1, infer_constant, evaluate_constant, {attr::tensor("value")});
TENON_OP("Range", 3, 3, 1, 1, infer_range, evaluate_range);
TENON_OP("EyeLike", 1, 1, 1, 1, infer_eye, evaluate_eye, {attr::element_type("dtype"), attr::integer("k")});

}  // namespace
}  // namespace tenon::ops::fill
