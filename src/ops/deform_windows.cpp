// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/counted.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/window.h"

/// Internal op DeformWindows: what each tap of a deformable convolution reads, channels last: an image (N, H, W, C),
/// offsets (N, rows, columns, groups, taps, 2) and masks (N, rows, columns, groups, taps), these axes joined from the
/// fourth on, give (N, rows, columns, taps * C).
namespace tenon::ops::deform_windows {
namespace {

using List = std::vector<int64_t>;

struct Windows {
  List kernel, strides, dilations, pads;
  int64_t groups;
  explicit Windows(auto& ctx)
      : kernel(window_list(ctx, "kernel_shape", 2, 1, 1)),
        strides(window_list(ctx, "strides", 2, 1, 1)),
        dilations(window_list(ctx, "dilations", 2, 1, 1)),
        pads(window_list(ctx, "pads", 4, 0, 0)),
        groups(ctx.node().integer("offset_group", 1)) {}
  int64_t taps() const { return kernel[0] * kernel[1]; }
};

void infer(Inference& ctx) {
  const Windows windows(ctx);
  const ir::Shape *x = ctx.shape(0), *offsets = ctx.shape(1);
  if (!x || !offsets) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 4));
  if (x->size() != 4 || offsets->size() != 4) ctx.fail("the image or the offsets have no four axes");
  ctx.set(0, ctx.dtype(0), ir::Shape{(*x)[0], (*offsets)[1], (*offsets)[2], (*x)[3] * ir::Dim(windows.taps())});
}

/// The value of a channel between four pixels; 0 outside.
double sample(const double* image, const Dims& dims, double y, double x, int64_t channel) {
  const auto height = static_cast<double>(dims[1]), width = static_cast<double>(dims[2]);
  if (!(y > -1 && y < height && x > -1 && x < width)) return 0;
  const double top = std::floor(y), left = std::floor(x), dy = y - top, dx = x - left;
  const auto at = [&](double row, double column) {
    if (row < 0 || column < 0 || row >= height || column >= width) return 0.0;
    return image[(static_cast<int64_t>(row) * dims[2] + static_cast<int64_t>(column)) * dims[3] + channel];
  };
  return (1 - dy) * ((1 - dx) * at(top, left) + dx * at(top, left + 1)) +
         dy * ((1 - dx) * at(top + 1, left) + dx * at(top + 1, left + 1));
}

void check(Evaluation& ctx, const Windows& windows) {
  const Dims &x = ctx.input(0).dims(), &offsets = ctx.input(1).dims();
  if (x.rank() != 4 || offsets.rank() != 4) ctx.fail("the image or the offsets have no four axes");
  if (windows.groups < 1 || x[3] % windows.groups != 0)
    ctx.fail("channels " + std::to_string(x[3]) + " do not fit " + counted(windows.groups, "offset group"));
  const bool few = windows.groups <= offsets[3] && windows.taps() <= offsets[3];  // no product below overflows
  if (!few || offsets[0] != x[0] || offsets[3] != 2 * windows.groups * windows.taps())
    ctx.fail("the offsets are " + offsets.str());
  if (ctx.has(2) && !(ctx.input(2).dims() == Dims{x[0], offsets[1], offsets[2], windows.groups * windows.taps()}))
    ctx.fail("the mask is " + ctx.input(2).dims().str());
}

void evaluate(Evaluation& ctx) {
  const Windows windows(ctx);
  check(ctx, windows);
  const Tensor &x = ctx.input(0), &where = ctx.input(1);
  const Dims &in = x.dims(), &places = where.dims();
  const int64_t taps = windows.taps(), channels = in[3], size = channels / windows.groups;
  const std::vector<double> source = reals(ctx, x), offsets = reals(ctx, where);
  const std::vector<double> mask = ctx.has(2) ? reals(ctx, ctx.input(2)) : std::vector<double>();
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), {in[0], places[1], places[2], taps * channels}).template data<T>();
    for (int64_t place = 0; place < places[0] * places[1] * places[2]; ++place) {
      const double* image = source.data() + place / (places[1] * places[2]) * in[1] * in[2] * channels;
      const int64_t row = place / places[2] % places[1], column = place % places[2];
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t entry = (place * windows.groups + c / size) * taps + tap;
          const int64_t top =
                            row * windows.strides[0] - windows.pads[0] + tap / windows.kernel[1] * windows.dilations[0],
                        left = column * windows.strides[1] - windows.pads[1] +
                               tap % windows.kernel[1] * windows.dilations[1];
          const double value = sample(image, in, static_cast<double>(top) + offsets[2 * entry],
                                      static_cast<double>(left) + offsets[2 * entry + 1], c);
          *to++ = rounded<T>(value * (mask.empty() ? 1 : mask[entry]));
        }
    }
  });
}

TENON_OP("tenon:DeformWindows", 2, 3, 1, 1, infer, evaluate,
         {attr::integers("kernel_shape").at_least(1).required().internal(),
          attr::integers("strides").at_least(1).internal(), attr::integers("dilations").at_least(1).internal(),
          attr::integers("pads").at_least(0).internal(), attr::integer("offset_group").at_least(1).internal()});

}  // namespace
}  // namespace tenon::ops::deform_windows
