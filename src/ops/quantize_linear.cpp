// SPDX-License-Identifier: Apache-2.0
#include "ops/float8.h"
#include "ops/inference.h"
#include "ops/quantize.h"

namespace tenon::ops::quantize_linear {
namespace {

template <class Context>
void check_type(const Context& ctx, DType type) {
  IntegerRange range;
  if (!is_float8(type) && !quantised_range(type, range))
    ctx.fail("cannot quantise to element type " + std::string(name(type)));
}

DType output_type(const ir::Node& node, DType zero_point) {
  if (zero_point != DType::undefined) return zero_point;
  const int64_t type = node.integer("output_dtype", 0);
  return type == 0 ? DType::u8 : static_cast<DType>(type);
}

void infer_scaled(Inference& ctx, DType output) {
  const ir::Shape *x = ctx.shape(0), *scale = ctx.shape(1);
  if (x && scale) check_spread(ctx, *x, *scale, ctx.node().integer("axis", 1), ctx.node().integer("block_size", 0));
  if (const ir::Shape* zero = ctx.has(2) ? ctx.shape(2) : nullptr; zero && scale) {
    bool same = zero->size() == scale->size() || (zero->size() < 2 && scale->size() < 2);
    for (size_t i = 0; same && i < std::min(zero->size(), scale->size()); ++i) same = !differ((*zero)[i], (*scale)[i]);
    if (!same) ctx.fail("the zero point is " + ir::str(*zero) + " where the scale is " + ir::str(*scale));
  }
  ctx.set(0, output, x ? std::optional(*x) : std::nullopt);
}

void infer_quantize(Inference& ctx) {
  const DType zero = ctx.has(2) ? ctx.dtype(2) : DType::undefined;
  const DType type = output_type(ctx.node(), zero), asked = output_type(ctx.node(), DType::undefined);
  if (zero != DType::undefined && ctx.node().integer("output_dtype", 0) != 0 && asked != zero)
    ctx.fail("output_dtype is " + std::string(name(asked)) + " where the zero point is " + std::string(name(zero)));
  check_type(ctx, type);
  infer_scaled(ctx, type);
}

void infer_dequantize(Inference& ctx) {
  if (ctx.has(2)) want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(2));
  const int64_t type = ctx.node().integer("output_dtype", 0);
  infer_scaled(ctx, type ? static_cast<DType>(type) : ctx.dtype(1));
}

void check_zero_point(Evaluation& ctx) {
  if (ctx.has(2) && ctx.input(2).elements() != ctx.input(1).elements())
    ctx.fail("scale and zero point are of different sizes");
}

void evaluate_quantize(Evaluation& ctx) {
  const Tensor &x = ctx.input(0), &scale = ctx.input(1);
  check_zero_point(ctx);
  const DType type = output_type(ctx.node(), ctx.has(2) ? ctx.input(2).dtype() : DType::undefined);
  check_type(ctx, type);
  const Spread spread = spread_of(ctx, x.dims(), scale.dims());
  const Tensor wide = x.dtype() == DType::i32 ? x : as_f32(x), scales = as_f32(scale);
  Tensor& y = ctx.output(0, type, x.dims());
  dispatch<Types<float, double, int32_t>>(ctx, wide.dtype(), [&]<class T>(Type<T>) {
    dispatch<Types<float, double, int32_t>>(ctx, scales.dtype(), [&]<class S>(Type<S>) {
      // The quotient is rounded to float first, as every runtime does; doubles keep their precision.
      using Quotient = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const auto quotient = [&](int64_t i) {
        return static_cast<Quotient>(wide.data<T>()[i]) / static_cast<Quotient>(scales.data<S>()[spread.at(i)]);
      };
      if (is_float8(type)) {
        const bool saturate = ctx.node().integer("saturate", 1) != 0;
        for (int64_t i = 0; i < x.elements(); ++i) {
          const float zero = ctx.has(2) ? f8_value(ctx.input(2).data<uint8_t>()[spread.at(i)], type) : 0.f;
          y.data<uint8_t>()[i] = f8_bits(static_cast<float>(quotient(i)) + zero, type, saturate);
        }
        return;
      }
      IntegerRange range{};
      quantised_range(type, range);
      const std::vector<int32_t> zeros =
          ctx.has(2) ? whole_numbers(ctx, ctx.input(2)) : std::vector<int32_t>(scales.elements());
      dispatch_quantised(ctx, type, [&]<class Q>(Type<Q>) {
        for (int64_t i = 0; i < x.elements(); ++i)
          y.data<Q>()[i] = static_cast<Q>(quantised(quotient(i), zeros[spread.at(i)], range));
      });
    });
  });
}

void evaluate_dequantize(Evaluation& ctx) {
  const Tensor &x = ctx.input(0), &scale = ctx.input(1);
  check_zero_point(ctx);
  if (ctx.has(2) && ctx.input(2).dtype() != x.dtype())
    ctx.fail("the zero point is of another element type than the data");
  const Spread spread = spread_of(ctx, x.dims(), scale.dims());
  const std::vector<double> scales = reals(ctx, scale);
  const int64_t asked = ctx.node().integer("output_dtype", 0);
  Tensor& y = ctx.output(0, asked ? static_cast<DType>(asked) : scale.dtype(), x.dims());
  const int64_t count = x.elements();
  const auto store = [&](auto&& distance) {
    dispatch<Floats>(ctx, y.dtype(), [&]<class T>(Type<T>) {
      using W = Wide<T>;
      for (int64_t i = 0; i < count; ++i)
        y.data<T>()[i] = static_cast<T>(static_cast<W>(distance(i)) * static_cast<W>(scales[spread.at(i)]));
    });
  };
  if (is_float8(x.dtype())) {
    store([&](int64_t i) {
      const float zero = ctx.has(2) ? f8_value(ctx.input(2).data<uint8_t>()[spread.at(i)], x.dtype()) : 0.f;
      return f8_value(x.data<uint8_t>()[i], x.dtype()) - zero;
    });
    return;
  }
  const std::vector<int32_t> values = whole_numbers(ctx, x);
  const std::vector<int32_t> zeros =
      ctx.has(2) ? whole_numbers(ctx, ctx.input(2)) : std::vector<int32_t>(scales.size());
  store([&](int64_t i) { return int64_t{values[i]} - zeros[spread.at(i)]; });
}

void infer_dynamic(Inference& ctx) {
  want_type(ctx, 0, {DType::f32}, "the input");
  const ir::Shape* x = ctx.shape(0);
  ctx.set(0, DType::u8, x ? std::optional(*x) : std::nullopt);
  ctx.set(1, DType::f32, ir::Shape{});
  ctx.set(2, DType::u8, ir::Shape{});
}

/// u8 over the range of the data widened to hold 0.
void evaluate_dynamic(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.dtype() != DType::f32) ctx.fail("the input must be f32");
  float low = 0, high = 0;
  for (float value : x.values<float>()) low = std::min(low, value), high = std::max(high, value);
  const float scale = high == low ? 1.f : (high - low) / 255.f;
  const auto zero = static_cast<uint8_t>(std::nearbyint(std::clamp(-low / scale, 0.f, 255.f)));
  Tensor& y = ctx.output(0, DType::u8, x.dims());
  for (int64_t i = 0; i < x.elements(); ++i)
    y.data<uint8_t>()[i] = static_cast<uint8_t>(quantised(x.data<float>()[i] / scale, zero, {0, 255}));
  if (ctx.wants(1)) *ctx.output(1, DType::f32, {}).data<float>() = scale;
  if (ctx.wants(2)) *ctx.output(2, DType::u8, {}).data<uint8_t>() = zero;
}

TENON_OP("QuantizeLinear", 2, 3, 1, 1, infer_quantize, evaluate_quantize,
         {attr::integer("axis").from(13), attr::integer("block_size").at_least(0).from(21),
          attr::element_type("output_dtype").from(21), attr::element_type("precision").from(23),
          attr::flag("saturate").from(19)},
         Trait::converts | Trait::quantises | Traits::output_scale_at(1));
TENON_OP("DequantizeLinear", 2, 3, 1, 1, infer_dequantize, evaluate_dequantize,
         {attr::integer("axis").from(13), attr::integer("block_size").at_least(0).from(21),
          attr::element_type("output_dtype").from(23)},
         Trait::converts | Trait::dequantises | Trait::any_float);
TENON_OP("DynamicQuantizeLinear", 1, 1, 3, 3, infer_dynamic, evaluate_dynamic, {}, Trait::converts | Trait::quantised);

}  // namespace
}  // namespace tenon::ops::quantize_linear
