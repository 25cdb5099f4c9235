// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/counted.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/window.h"

namespace tenon::ops::deform_conv {
namespace {

template <class Context>
ir::Shape convolved(Context& ctx, const ir::Shape& x, const ir::Shape& w, Window& window) {
  if (x.size() != 4 || w.size() != 4)
    ctx.fail("input " + ir::str(x) + " and weights " + ir::str(w) + "; only two spatial axes are supported");
  if (!w[2].is_constant() || !w[3].is_constant()) ctx.fail("the kernel size is not known");
  window = read_window(ctx, {w[2].value(), w[3].value()});
  ir::Shape y{x[0], w[0]};
  for (size_t axis = 0; axis < 2; ++axis) y.push_back(slide(ctx, window, axis, x[axis + 2]));
  return y;
}

void infer(Inference& ctx) {
  const ir::Shape *x = ctx.shape(0), *w = ctx.shape(1);
  Window window;
  ctx.set(0, ctx.dtype(0), x && w ? std::optional(convolved(ctx, *x, *w, window)) : std::nullopt);
}

/// Bilinear sample of a plane; 0 outside.
double sample(const double* plane, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) return 0;
  const double top = std::floor(y), left = std::floor(x), dy = y - top, dx = x - left;
  const auto at = [&](double row, double column) {
    if (row < 0 || column < 0 || row >= static_cast<double>(height) || column >= static_cast<double>(width)) return 0.0;
    return plane[static_cast<int64_t>(row) * width + static_cast<int64_t>(column)];
  };
  return (1 - dy) * ((1 - dx) * at(top, left) + dx * at(top, left + 1)) +
         dy * ((1 - dx) * at(top + 1, left) + dx * at(top + 1, left + 1));
}

/// Deformable convolution: each tap of each output is read at its own offset (y, x) and scaled by its mask.
void evaluate(Evaluation& ctx) {
  const Tensor &x = ctx.input(0), &w = ctx.input(1);
  Window window;
  const Dims dims = dims_of(convolved(ctx, shape_of(x.dims()), shape_of(w.dims()), window));
  const int64_t groups = ctx.node().integer("group", 1), offset_groups = ctx.node().integer("offset_group", 1);
  const int64_t batch = dims[0], out_channels = dims[1], height = dims[2], width = dims[3];
  const int64_t channels = x.dims()[1], in_height = x.dims()[2], in_width = x.dims()[3];
  const int64_t kernel_h = w.dims()[2], kernel_w = w.dims()[3], taps = kernel_h * kernel_w, per_group = w.dims()[1];
  if (groups < 1 || offset_groups < 1 || channels % groups || channels % offset_groups || out_channels % groups ||
      per_group * groups != channels)
    ctx.fail("channels " + std::to_string(channels) + " do not fit " + counted(groups, "group") + " and " +
             std::to_string(offset_groups) + " offset groups");
  if (!(ctx.input(2).dims() == Dims{batch, offset_groups * taps * 2, height, width}))
    ctx.fail("the offsets are " + ctx.input(2).dims().str());
  if (ctx.has(3) && !(ctx.input(3).dims() == Dims{out_channels})) ctx.fail("the bias is " + ctx.input(3).dims().str());
  if (ctx.has(4) && !(ctx.input(4).dims() == Dims{batch, offset_groups * taps, height, width}))
    ctx.fail("the mask is " + ctx.input(4).dims().str());
  const std::vector<double> source = reals(ctx, x), weights = reals(ctx, w), offsets = reals(ctx, ctx.input(2));
  const std::vector<double> bias =
      ctx.has(3) ? reals(ctx, ctx.input(3)) : std::vector<double>(static_cast<size_t>(out_channels));
  const std::vector<double> mask = ctx.has(4) ? reals(ctx, ctx.input(4)) : std::vector<double>();
  std::vector<double> patch(static_cast<size_t>(channels * taps));
  const int64_t plane = height * width;
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), dims).template data<T>();
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t at = 0; at < plane; ++at) {
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t entry = (n * offset_groups + c / (channels / offset_groups)) * taps + tap;
            const double y = static_cast<double>(at / width * window.strides[0] - window.begin[0] +
                                                 tap / kernel_w * window.dilations[0]) +
                             offsets[entry * 2 * plane + at];
            const double column = static_cast<double>(at % width * window.strides[1] - window.begin[1] +
                                                      tap % kernel_w * window.dilations[1]) +
                                  offsets[(entry * 2 + 1) * plane + at];
            patch[c * taps + tap] =
                sample(source.data() + (n * channels + c) * in_height * in_width, in_height, in_width, y, column) *
                (mask.empty() ? 1 : mask[entry * plane + at]);
          }
        for (int64_t o = 0; o < out_channels; ++o) {
          const double* values = patch.data() + o / (out_channels / groups) * per_group * taps;
          double sum = bias[o];
          for (int64_t k = 0; k < per_group * taps; ++k) sum += values[k] * weights[o * per_group * taps + k];
          to[(n * out_channels + o) * plane + at] = rounded<T>(sum);
        }
      }
  });
}

TENON_OP("DeformConv", 3, 5, 1, 1, infer, evaluate,
         {attr::integers("dilations").at_least(1), attr::integer("group").at_least(1),
          attr::integers("kernel_shape").at_least(1), attr::integer("offset_group").at_least(1),
          attr::integers("pads").at_least(0), attr::integers("strides").at_least(1)},
         Trait::product);

}  // namespace
}  // namespace tenon::ops::deform_conv
