// SPDX-License-Identifier: Apache-2.0
#include "ops/convolve.h"
#include "ops/epilogue.h"
#include "ops/floats.h"

namespace tenon::ops::conv {
namespace {

/// The internal attribute input_layout="NCHW" beside layout="NHWC": a stem reads its image as it lies and writes
/// channels last.
template <class Context>
bool input_channels_last(Context& ctx) {
  return channels_last(ctx) && ctx.node().text("input_layout", "NHWC") != "NCHW";
}

/// Inputs of one width of arithmetic: doubles, or shorter floats, which passes mix.
void check_types(Inference& ctx) {
  const DType type = ctx.dtype(0);
  if (type == DType::undefined) return;
  if (!is_float(type)) ctx.fail("the input is of type " + std::string(name(type)) + ", no float");
  for (size_t at = 1; at < ctx.inputs(); ++at) {
    const DType other = ctx.dtype(at);
    if (other != DType::undefined && (!is_float(other) || (other == DType::f64) != (type == DType::f64)))
      ctx.fail("input " + std::to_string(at) + " is of type " + std::string(name(other)) + " where the input is of " +
               std::string(name(type)));
  }
}

void infer_conv(Inference& ctx) {
  check_types(ctx);
  const DType dtype = output_type(ctx, ctx.dtype(0));
  const bool last = channels_last(ctx);
  const Epilogue epilogue = read_epilogue(ctx);
  const ir::Shape *x = ctx.shape(0), *w = ctx.shape(1);
  std::optional<ir::Shape> output;
  ir::Shape assumed;
  if (!x && w && w->size() >= 3 && !last && !input_channels_last(ctx)) {
    // As many axes as the weights have.
    assumed = {tagged_unknown(ctx, "batch"), (*w)[1] * ir::Dim(ctx.node().integer("group", 1))};
    while (assumed.size() < w->size()) assumed.push_back(tagged_unknown(ctx, "size"));
    x = &assumed;
  }
  if (x && w) {
    if (const auto sizes = size_convolution(ctx, input_channels_last(ctx) ? move_channel(*x, false) : *x, *w))
      output = last ? move_channel(sizes->output, true) : sizes->output;
    if (const ir::Shape* bias = ctx.has(2) ? ctx.shape(2) : nullptr;
        bias && (bias->size() != 1 || differ((*bias)[0], (*w)[0])))
      ctx.fail("the bias has sizes " + ir::str(*bias) + " for " + (*w)[0].str() + " output channels");
  }
  check_residual(ctx, epilogue, dtype, output);
  if (w && !w->empty()) check_slopes(ctx, epilogue, (*w)[0]);
  ctx.set(0, dtype, output);
}

void evaluate_conv(Evaluation& ctx) {
  const DType dtype = output_type(ctx, ctx.input(0).dtype());
  const bool last = channels_last(ctx);
  const Epilogue epilogue = read_epilogue(ctx);
  const Tensor x = to_channels_first(as_f32(ctx.input(0)), input_channels_last(ctx)), w = as_f32(ctx.input(1));
  if (x.dtype() != w.dtype()) ctx.fail("input and weights are of different element types");
  const ConvSizes sizes = *size_convolution(ctx, shape_of(x.dims()), shape_of(w.dims()));
  const Dims out = dims_of(sizes.output);
  const Tensor bias = ctx.has(2) ? as_f32(ctx.input(2)) : Tensor();
  if (bias && (bias.dtype() != x.dtype() || bias.dims() != Dims{out[1]}))
    ctx.fail("the bias does not fit the output channels");
  Tensor residual;
  if (epilogue.residual != Residual::none) {
    if (!ctx.has(3)) ctx.fail("a residual is asked for but input 3 is absent");
    residual = to_channels_first(as_f32(ctx.input(3)), last);
    if (residual.dtype() != x.dtype() || residual.dims() != out) ctx.fail("the residual does not fit the output");
  }
  const Window3 window = window3(sizes.window, spatial(x.dims()), spatial(out));
  const int64_t plane = window.out_plane(), image = out[1] * plane;
  Tensor y(x.dtype(), out);
  with_wide(ctx, x.dtype(), [&]<class T>(Type<T>) {
    std::vector<double> sums(static_cast<size_t>(image));
    for (int64_t n = 0; n < out[0]; ++n) {
      for (int64_t i = 0; i < image; ++i) sums[i] = bias ? bias.data<T>()[i / plane] : 0;
      convolve(window, sizes.groups, x.dims()[1], out[1], x.data<T>() + n * x.dims()[1] * window.in_plane(),
               w.data<T>(), sums.data());
      std::copy(sums.begin(), sums.end(), y.data<T>() + n * image);
    }
    apply(epilogue, y.data<T>(), residual ? residual.data<T>() : nullptr, y.elements(), out[1], plane);
  });
  deliver(ctx, 0, dtype, to_channels_last(y, last));
}

TENON_OP("Conv", 2, 4, 1, 1, infer_conv, evaluate_conv, window_attributes() + fused_attributes(),
         Trait::product | Trait::convolution | Trait::integer_form | Trait::same_type | Trait::same_rank |
             Traits::weights_at({1}) | Traits::standard_inputs(3));

}  // namespace
}  // namespace tenon::ops::conv
