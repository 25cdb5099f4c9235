// SPDX-License-Identifier: Apache-2.0
#include "ops/convolve.h"
#include "ops/epilogue.h"
#include "ops/float8.h"
#include "ops/floats.h"
#include "ops/fused_operands.h"

namespace tenon::ops::float8_conv {
namespace {

/// Internal: a Conv of e4m3 floats with everything up to the next QuantizeLinear. Inputs as Int8Conv's (int8_conv.cpp),
/// so that kernels share what they know of them; x, weights, residual and zero points are f8e4m3fn, zero points absent
/// or 0. Without a scale of y the output is f32, or what output_dtype says. The result is y / y_scale to the nearest
/// e4m3, at most the largest, of y = epilogue(sum * x_scale * w_scale + bias). Scales of x, y and residual are one
/// number; those of the weights one, or one for each output channel.
enum Input : size_t { x_at, w_at, bias_at, residual_at, x_scale, x_zero, w_scale, y_scale, y_zero, r_scale, r_zero };
constexpr DType byte = DType::f8e4m3fn;

template <class Context>
void check(Context& ctx) {
  if (!channels_last(ctx)) ctx.fail("only layout NHWC");
  for (const size_t at : {x_scale, w_scale})
    if (!ctx.has(at)) ctx.fail("input " + std::to_string(at) + " is absent");
}

void infer(Inference& ctx) {
  check(ctx);
  if (ctx.dtype(x_at) != byte || ctx.dtype(w_at) != byte) ctx.fail("takes f8e4m3fn only");
  if (read_epilogue(ctx).residual != Residual::none && (!ctx.has(residual_at) || !ctx.has(r_scale)))
    ctx.fail("a residual is asked for but input 3 or 9 is absent");
  std::optional<ir::Shape> output;
  if (const ir::Shape* x = ctx.shape(x_at), *w = ctx.shape(w_at); x && w)
    if (const auto sizes = size_convolution(ctx, move_channel(*x, false), *w))
      output = move_channel(sizes->output, true);
  check_quantised_operands(ctx, byte, output, byte);
  if (const ir::Shape* by = ctx.shape(w_at); by && !by->empty()) check_slopes(ctx, read_epilogue(ctx), (*by)[0]);
  ctx.set(0, ctx.has(y_scale) ? byte : real_type(ctx), output);
}

std::vector<double> numbers_of(Evaluation& ctx, const Tensor& tensor) {
  if (tensor.dtype() != byte) ctx.fail("takes f8e4m3fn only");
  std::vector<double> list(static_cast<size_t>(tensor.elements()));
  for (size_t i = 0; i < list.size(); ++i) list[i] = f8_value(tensor.data<uint8_t>()[i], byte);
  return list;
}

float number(Evaluation& ctx, size_t at) { return static_cast<float>(reals(ctx, ctx.input(at)).at(0)); }

void evaluate(Evaluation& ctx) {
  check(ctx);
  const Epilogue epilogue = read_epilogue(ctx);
  const Tensor x = to_channels_first(ctx.input(x_at), true);
  const Tensor& w = ctx.input(w_at);
  const ConvSizes sizes = *size_convolution(ctx, shape_of(x.dims()), shape_of(w.dims()));
  const Dims out = dims_of(sizes.output);
  const std::vector<double> inputs = numbers_of(ctx, x), weights = numbers_of(ctx, w);
  const std::vector<double> scales = reals(ctx, ctx.input(w_scale));
  const Window3 window = window3(sizes.window, spatial(x.dims()), spatial(out));
  const int64_t plane = window.out_plane(), image = out[1] * plane;
  if (scales.size() != 1 && static_cast<int64_t>(scales.size()) != out[1])
    ctx.fail("the weights have neither one scale nor one for each channel");
  std::vector<double> sums(static_cast<size_t>(out.elements()));
  for (int64_t n = 0; n < out[0]; ++n)
    convolve(window, sizes.groups, x.dims()[1], out[1], inputs.data() + n * x.dims()[1] * window.in_plane(),
             weights.data(), sums.data() + n * image);
  std::vector<double> residual;
  float r_factor = 1;
  if (epilogue.residual != Residual::none) {
    residual = numbers_of(ctx, to_channels_first(ctx.input(residual_at), true));
    r_factor = number(ctx, r_scale);
  }
  const double x_factor = number(ctx, x_scale);
  const bool quantises = ctx.has(y_scale);
  const float inverse = quantises ? 1.f / number(ctx, y_scale) : 1;
  Tensor y(quantises ? byte : DType::f32, out);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t channel = i / plane % out[1];
    float value = static_cast<float>(sums[i]) * static_cast<float>(x_factor * scales[scales.size() == 1 ? 0 : channel]);
    value += ctx.has(bias_at) ? ctx.input(bias_at).data<float>()[channel] : 0.f;
    float more = residual.empty() ? 0 : static_cast<float>(residual[i]) * r_factor;
    apply(epilogue, value, more, static_cast<int64_t>(channel));
    if (quantises) y.data<uint8_t>()[i] = f8_bits(value * inverse, byte, true);
    else y.data<float>()[i] = value;
  }
  deliver(ctx, 0, quantises ? byte : real_type(ctx), to_channels_last(y, true));
}

TENON_OP("tenon:Float8Conv", 2, 11, 1, 1, infer, evaluate, window_attributes() + fused_attributes(),
         Trait::product | Trait::convolution | Trait::quantised | Trait::any_float | Traits::output_scale_at(7));

}  // namespace
}  // namespace tenon::ops::float8_conv
