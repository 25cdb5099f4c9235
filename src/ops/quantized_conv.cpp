// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/convolve.h"
#include "ops/quantize.h"

namespace tenon::ops::quantized_conv {
namespace {

/// Zero points or scales: one number, or one per output channel.
template <class T>
T per_channel(const std::vector<T>& list, int64_t channel, T otherwise) {
  return list.empty() ? otherwise : list[list.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

template <class T>
void check_per_channel(Evaluation& ctx, const std::vector<T>& list, int64_t channels, const char* what) {
  if (list.size() > 1 && static_cast<int64_t>(list.size()) != channels)
    ctx.fail(std::string(what) + " has " + counted(list.size(), "entry") + " for " + counted(channels, "channel"));
}

struct Sums {
  Dims dims;
  std::vector<int64_t> values;
};

/// The integer convolution of x - x_zero with w - w_zero. Padding counts as x_zero.
Sums convolve_integers(Evaluation& ctx, size_t x_at, size_t x_zero_at, size_t w_at, size_t w_zero_at, bool last) {
  const Tensor x = to_channels_first(ctx.input(x_at), last);
  const Tensor& w = ctx.input(w_at);
  const ConvSizes sizes = *size_convolution(ctx, shape_of(x.dims()), shape_of(w.dims()));
  Sums sums{dims_of(sizes.output), {}};
  const Dims& out = sums.dims;
  std::vector<int32_t> inputs = whole_numbers(ctx, x), weights = whole_numbers(ctx, w);
  const auto zeros = [&](size_t at) {
    return ctx.has(at) ? whole_numbers(ctx, ctx.input(at)) : std::vector<int32_t>(1);
  };
  const std::vector<int32_t> x_zero = zeros(x_zero_at), w_zero = zeros(w_zero_at);
  if (x_zero.size() != 1) ctx.fail("the input's zero point must be one number");
  check_per_channel(ctx, w_zero, out[1], "the weights' zero point");
  for (int32_t& value : inputs) value -= x_zero[0];
  const int64_t each = out[1] ? w.elements() / out[1] : 0;
  for (int64_t i = 0; i < w.elements(); ++i) weights[i] -= per_channel(w_zero, i / each, 0);
  const Window3 window = window3(sizes.window, spatial(x.dims()), spatial(out));
  sums.values.resize(static_cast<size_t>(out.elements()));
  for (int64_t n = 0; n < out[0]; ++n)
    convolve(window, sizes.groups, x.dims()[1], out[1], inputs.data() + n * x.dims()[1] * window.in_plane(),
             weights.data(), sums.values.data() + n * out[1] * window.out_plane());
  return sums;
}

std::optional<ir::Shape> conv_shape(Inference& ctx, size_t x_at, size_t w_at) {
  const ir::Shape *x = ctx.shape(x_at), *w = ctx.shape(w_at);
  if (!x || !w) return std::nullopt;
  const bool last = channels_last(ctx);
  const auto sizes = size_convolution(ctx, last ? move_channel(*x, false) : *x, *w);
  if (!sizes) return std::nullopt;
  return last ? move_channel(sizes->output, true) : sizes->output;
}

void infer_integer(Inference& ctx) { ctx.set(0, DType::i32, conv_shape(ctx, 0, 1)); }

void evaluate_integer(Evaluation& ctx) {
  const bool last = channels_last(ctx);
  const Sums sums = convolve_integers(ctx, 0, 2, 1, 3, last);
  Tensor y(DType::i32, sums.dims);
  for (size_t i = 0; i < sums.values.size(); ++i) y.data<int32_t>()[i] = static_cast<int32_t>(sums.values[i]);
  deliver(ctx, 0, DType::i32, to_channels_last(y, last));
}

void infer_qlinear(Inference& ctx) { ctx.set(0, ctx.dtype(7), conv_shape(ctx, 0, 3)); }

/// Inputs x, its scale and zero point, w, its scale and zero point, those of y, and an i32 bias of scale x_scale *
/// w_scale.
void evaluate_qlinear(Evaluation& ctx) {
  const bool last = channels_last(ctx);
  const Sums sums = convolve_integers(ctx, 0, 2, 3, 5, last);
  const int64_t channels = sums.dims[1],
                plane = channels && sums.dims[0] ? sums.dims.elements() / channels / sums.dims[0] : 0;
  const std::vector<double> x_scale = reals(ctx, ctx.input(1)), w_scale = reals(ctx, ctx.input(4)),
                            y_scale = reals(ctx, ctx.input(6));
  const std::vector<int32_t> y_zero = whole_numbers(ctx, ctx.input(7));
  const std::vector<int32_t> bias = ctx.has(8) ? whole_numbers(ctx, ctx.input(8)) : std::vector<int32_t>();
  if (x_scale.size() != 1 || y_scale.size() != 1 || y_zero.size() != 1 || w_scale.empty())
    ctx.fail("scales of x and y must be one number");
  check_per_channel(ctx, w_scale, channels, "the weights' scale");
  if (!bias.empty() && static_cast<int64_t>(bias.size()) != channels)
    ctx.fail("the bias does not fit the output channels");
  IntegerRange range{};
  const DType type = ctx.input(7).dtype();
  if (!quantised_range(type, range)) ctx.fail("the output's zero point is " + std::string(name(type)));
  Tensor y(type, sums.dims);
  dispatch_quantised(ctx, type, [&]<class Q>(Type<Q>) {
    for (int64_t i = 0; i < static_cast<int64_t>(sums.values.size()); ++i) {
      const int64_t channel = i / plane % channels;
      const int64_t sum = sums.values[i] + (bias.empty() ? 0 : bias[channel]);
      const double factor = x_scale[0] * per_channel(w_scale, channel, 1.0) / y_scale[0];
      y.data<Q>()[i] = static_cast<Q>(quantised(static_cast<double>(sum) * factor, y_zero[0], range));
    }
  });
  deliver(ctx, 0, type, to_channels_last(y, last));
}

TENON_OP("ConvInteger", 2, 4, 1, 1, infer_integer, evaluate_integer, window_attributes() + layout_attribute(),
         Trait::product | Trait::quantised);
TENON_OP("QLinearConv", 8, 9, 1, 1, infer_qlinear, evaluate_qlinear, window_attributes() + layout_attribute(),
         Trait::product | Trait::quantised);

}  // namespace
}  // namespace tenon::ops::quantized_conv
