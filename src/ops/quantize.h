// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <vector>

#include "ops/broadcast.h"
#include "ops/dispatch.h"
#include "ops/floats.h"
#include "ops/window.h"

/// Integers of quantised tensors, and how scales spread over them.
namespace tenon::ops {

struct IntegerRange {
  int64_t low, high;
};

/// Limits of a quantised type; false for other types.
inline bool quantised_range(DType type, IntegerRange& range) {
  switch (type) {
    case DType::u8: range = {0, 255}; return true;
    case DType::i8: range = {-128, 127}; return true;
    case DType::u16: range = {0, 65535}; return true;
    case DType::i16: range = {-32768, 32767}; return true;
    case DType::u4: range = {0, 15}; return true;
    case DType::i4: range = {-8, 7}; return true;
    case DType::i32: range = {INT32_MIN, INT32_MAX}; return true;
    default: return false;
  }
}

/// Calls `f` with the storage type of a quantised integer type; 4-bit types lie one a byte.
template <class Context, class F>
void dispatch_quantised(Context& ctx, DType type, F&& f) {
  if (type == DType::u4) type = DType::u8;
  if (type == DType::i4) type = DType::i8;
  dispatch<Types<uint8_t, int8_t, uint16_t, int16_t, int32_t>>(ctx, type, f);
}

/// All elements of a quantised integer tensor.
template <class Context>
std::vector<int32_t> whole_numbers(const Context& ctx, const Tensor& tensor) {
  std::vector<int32_t> list(static_cast<size_t>(tensor.elements()));
  dispatch_quantised(ctx, tensor.dtype(), [&]<class T>(Type<T>) {
    for (size_t i = 0; i < list.size(); ++i) list[i] = static_cast<int32_t>(tensor.data<T>()[i]);
  });
  return list;
}

/// Round to nearest even, add the zero point, clamp. NaN gives the zero point.
inline int64_t quantised(double value, int64_t zero, const IntegerRange& range) {
  if (std::isnan(value)) return zero;
  const double moved = std::nearbyint(value) + static_cast<double>(zero);
  if (moved <= static_cast<double>(range.low)) return range.low;
  if (moved >= static_cast<double>(range.high)) return range.high;
  return static_cast<int64_t>(moved);
}

/// Where element i of a tensor finds its scale: one for all, one per entry of an axis, or one per block along it.
struct Spread {
  enum { tensor, axis, blocks } kind = tensor;
  int64_t size = 1, inner = 1, block = 1;
  int64_t at(int64_t i) const {
    if (kind == tensor) return 0;
    const int64_t position = i / inner % size;
    if (kind == axis) return position;
    const int64_t count = (size + block - 1) / block;
    return ((i / inner / size) * count + position / block) * inner + i % inner;
  }
};

/// Checks a scale's sizes against those of the data; `axis` counts only where the scale is not one number.
template <class Context>
void check_spread(Context& ctx, const ir::Shape& x, const ir::Shape& scale, int64_t axis, int64_t block) {
  if (block < 0) ctx.fail("block_size is " + std::to_string(block));
  if (block == 0 && (scale.empty() || scale == ir::Shape{1})) return;
  const size_t at = normal_axis(ctx, axis, x.size());
  bool fits = block ? scale.size() == x.size() : scale.size() == 1 && !differ(scale[0], x[at]);
  for (size_t i = 0; fits && block && i < x.size(); ++i)
    fits = !differ(scale[i], i == at ? x[i].ceil_div(block) : x[i]);
  if (!fits)
    ctx.fail("the scale is " + ir::str(scale) + " for a tensor " + ir::str(x) + " and axis " + std::to_string(axis));
}

inline Spread spread_of(Evaluation& ctx, const Dims& x, const Dims& scale) {
  const int64_t axis = ctx.node().integer("axis", 1), block = ctx.node().integer("block_size", 0);
  check_spread(ctx, shape_of(x), shape_of(scale), axis, block);
  Spread spread;
  if (block == 0 && scale.elements() == 1 && scale.rank() < 2) return spread;
  const Around parts = around(x, normal_axis(ctx, axis, x.rank()));
  return {block ? Spread::blocks : Spread::axis, parts.size, std::max<int64_t>(1, parts.inner),
          std::max<int64_t>(1, block)};
}

}  // namespace tenon::ops
