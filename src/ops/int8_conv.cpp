// SPDX-License-Identifier: Apache-2.0
#include "ops/convolve.h"
#include "ops/epilogue.h"
#include "ops/fused_operands.h"
#include "ops/int8_steps.h"
#include "ops/quantize.h"

namespace tenon::ops::int8_conv {
namespace {

/// Internal: a Conv of bytes with everything up to the next QuantizeLinear. Inputs as Conv's (x u8, weights i8, or i16
/// from -255 to 255, bias f32, residual u8), then scale and zero point of x, scale of the weights (one, or one for each
/// output channel), scale and zero point of y and of the residual, their scales likewise one or one a channel. Without
/// a scale of y the output is f32, or what output_dtype says. An x of f32 is quantised first. Attributes are Conv's,
/// epilogue and input_layout included. The result is round(y / y_scale) + y_zero of y = epilogue(sum * x_scale *
/// w_scale + bias), sum exact; where int8_steps.h says so, in steps of y_scale all along.
/// Int16Conv is the same of an x of f32 that is quantised to 16 bits first, as the type of its zero point says.
enum Input : size_t { x_at, w_at, bias_at, residual_at, x_scale, x_zero, w_scale, y_scale, y_zero, r_scale, r_zero };

template <class Context>
void check(Context& ctx) {
  if (!channels_last(ctx)) ctx.fail("only layout NHWC");
  for (size_t at : {x_scale, x_zero, w_scale})
    if (!ctx.has(at)) ctx.fail("input " + std::to_string(at) + " is absent");
}

template <class Context>
bool input_channels_last(Context& ctx) {
  return ctx.node().text("input_layout", "NHWC") != "NCHW";
}

void infer(Inference& ctx) {
  check(ctx);
  const Epilogue epilogue = read_epilogue(ctx);
  const DType x = ctx.dtype(x_at), w = ctx.dtype(w_at);
  const bool wide = reads_int16(ctx.node());
  if (wide && ctx.dtype(x_zero) != DType::undefined && ctx.dtype(x_zero) != DType::i16 &&
      ctx.dtype(x_zero) != DType::u16)
    ctx.fail("takes zero points of i16 or u16");
  if ((x != DType::u8 && x != DType::f32) || (wide && x != DType::f32) || (w != DType::i8 && w != DType::i16))
    ctx.fail("takes u8 or f32 and weights of i8 or i16");
  if (epilogue.residual != Residual::none && (!ctx.has(residual_at) || !ctx.has(r_scale) || !ctx.has(r_zero)))
    ctx.fail("a residual is asked for but input 3, 9 or 10 is absent");
  std::optional<ir::Shape> output;
  if (const ir::Shape* from = ctx.shape(x_at), *by = ctx.shape(w_at); from && by)
    if (const auto sizes = size_convolution(ctx, input_channels_last(ctx) ? move_channel(*from, false) : *from, *by))
      output = move_channel(sizes->output, true);
  if (ctx.has(y_scale) && !ctx.has(y_zero)) ctx.fail("input 8 is absent");
  check_quantised_operands(ctx, DType::u8, output, wide ? ctx.dtype(x_zero) : DType::u8);
  if (const ir::Shape* by = ctx.shape(w_at); by && !by->empty()) check_slopes(ctx, epilogue, (*by)[0]);
  ctx.set(0, ctx.has(y_scale) ? DType::u8 : real_type(ctx), output);
}

float number(Evaluation& ctx, size_t at) { return static_cast<float>(reals(ctx, ctx.input(at)).at(0)); }

/// One number for all channels, or a list of one for each.
std::vector<float> by_channel(Evaluation& ctx, size_t at, int64_t channels) {
  std::vector<float> list(static_cast<size_t>(channels), 1);
  if (!ctx.has(at)) return list;
  const std::vector<double> given = reals(ctx, ctx.input(at));
  if (given.size() != 1 && given.size() != list.size())
    ctx.fail("input " + std::to_string(at) + " has neither one scale nor one for each channel");
  for (size_t channel = 0; channel < list.size(); ++channel)
    list[channel] = static_cast<float>(given[given.size() == 1 ? 0 : channel]);
  return list;
}

Tensor quantised_input(Evaluation& ctx, int32_t zero) {
  const Tensor& x = ctx.input(x_at);
  if (x.dtype() == DType::u8) return x;
  const float scale = number(ctx, x_scale);
  IntegerRange range{};
  quantised_range(ctx.input(x_zero).dtype(), range);
  Tensor numbers(DType::i32, x.dims());
  for (int64_t i = 0; i < x.elements(); ++i)
    numbers.data<int32_t>()[i] = static_cast<int32_t>(quantised(x.data<float>()[i] / scale, zero, range));
  return numbers;
}

void evaluate(Evaluation& ctx) {
  check(ctx);
  const Epilogue epilogue = read_epilogue(ctx);
  const int32_t x_zero_point = whole_numbers(ctx, ctx.input(x_zero)).at(0);
  const Tensor x = to_channels_first(quantised_input(ctx, x_zero_point), input_channels_last(ctx));
  const Tensor& w = ctx.input(w_at);
  const ConvSizes sizes = *size_convolution(ctx, shape_of(x.dims()), shape_of(w.dims()));
  const Dims out = dims_of(sizes.output);
  std::vector<int32_t> inputs = whole_numbers(ctx, x), weights = whole_numbers(ctx, w);
  for (int32_t& value : inputs) value -= x_zero_point;
  const std::vector<double> scales = reals(ctx, ctx.input(w_scale));
  Tensor residual;
  int32_t r_zero_point = 0;
  if (epilogue.residual != Residual::none) {
    residual = to_channels_first(ctx.input(residual_at), true);
    r_zero_point = whole_numbers(ctx, ctx.input(r_zero)).at(0);
  }
  const Window3 window = window3(sizes.window, spatial(x.dims()), spatial(out));
  const int64_t plane = window.out_plane(), image = out[1] * plane;
  std::vector<int64_t> sums(static_cast<size_t>(out.elements()));
  for (int64_t n = 0; n < out[0]; ++n)
    convolve(window, sizes.groups, x.dims()[1], out[1], inputs.data() + n * x.dims()[1] * window.in_plane(),
             weights.data(), sums.data() + n * image);
  const double x_factor = number(ctx, x_scale);
  const bool quantises = ctx.has(y_scale);
  std::vector<float> inverse = by_channel(ctx, y_scale, out[1]);
  for (float& scale : inverse) scale = 1.f / scale;
  const std::vector<float> r_factor = by_channel(ctx, r_scale, out[1]);
  const int32_t zero = quantises ? whole_numbers(ctx, ctx.input(y_zero)).at(0) : 0;
  const bool in_steps = quantises && counts_steps(epilogue.activation, epilogue.residual == Residual::after, inverse);
  Tensor y(quantises ? DType::u8 : DType::f32, out);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t channel = i / plane % out[1];
    const auto sum = static_cast<float>(sums[i]);
    const auto factor = static_cast<float>(x_factor * scales[scales.size() == 1 ? 0 : channel]);
    const float bias = ctx.has(bias_at) ? ctx.input(bias_at).data<float>()[channel] : 0.f;
    const int32_t other = residual ? residual.data<uint8_t>()[i] : 0;
    float value;
    if (in_steps) {
      const ChannelSteps steps = channel_steps(factor, bias, r_factor[channel], r_zero_point, inverse[channel]);
      value = std::fma(sum, steps.multiplier, steps.bias);
      if (residual) value = std::fma(static_cast<float>(other), steps.residual, value);
      value = activate(
          Epilogue{epilogue.activation, Residual::none, epilogue.alpha * inverse[0], epilogue.beta * inverse[0]}, value,
          0);
    } else {
      value = sum * factor + bias;
      const float more = residual ? static_cast<float>(other - r_zero_point) * r_factor[channel] : 0.f;
      apply(epilogue, value, more, static_cast<int64_t>(channel));
      if (quantises) value *= inverse[channel];
    }
    if (quantises) y.data<uint8_t>()[i] = static_cast<uint8_t>(quantised(value, zero, {0, 255}));
    else y.data<float>()[i] = value;
  }
  deliver(ctx, 0, quantises ? DType::u8 : real_type(ctx), to_channels_last(y, true));
}

TENON_OP("tenon:Int8Conv", 2, 11, 1, 1, infer, evaluate, window_attributes() + fused_attributes(),
         Trait::product | Trait::convolution | Trait::quantised | Trait::any_float | Traits::output_scale_at(7));
TENON_OP("tenon:Int16Conv", 2, 11, 1, 1, infer, evaluate, window_attributes() + fused_attributes(),
         Trait::product | Trait::convolution | Trait::quantised | Traits::output_scale_at(7));

}  // namespace
}  // namespace tenon::ops::int8_conv
