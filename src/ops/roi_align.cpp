// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/floats.h"
#include "ops/window.h"

namespace tenon::ops::roi_align {
namespace {

struct Setting {
  int64_t height, width, ratio;
  bool maximum, half_pixel;
  double scale;
};

template <class Context>
Setting read_setting(Context& ctx) {
  const ir::Node& node = ctx.node();
  const std::string mode = node.text("mode", "avg"),
                    transform = node.text("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") ctx.fail("mode is \"" + mode + "\"");
  if (transform != "half_pixel" && transform != "output_half_pixel")
    ctx.fail("coordinate_transformation_mode is \"" + transform + "\"");
  const Setting setting{node.integer("output_height", 1),  node.integer("output_width", 1),
                        node.integer("sampling_ratio", 0), mode == "max",
                        transform == "half_pixel",         node.real("spatial_scale", 1)};
  if (setting.height < 1 || setting.width < 1 || setting.ratio < 0 || setting.ratio > 1024)
    ctx.fail("an output size or sampling_ratio is out of range");
  return setting;
}

void infer(Inference& ctx) {
  const Setting setting = read_setting(ctx);
  const ir::Shape *x = ctx.shape(0), *rois = ctx.shape(1);
  if (x && x->size() != 4) ctx.fail("the input must be N x C x H x W");
  if (rois && (rois->size() != 2 || differ((*rois)[1], 4)))
    ctx.fail("the regions are " + ir::str(*rois) + " where R x 4 is needed");
  want_integers(ctx, 2, "batch indices");
  if (rois && (*rois)[0].is_constant()) want_elements(ctx, 2, (*rois)[0].value(), "the operand of batch indices");
  std::optional<ir::Shape> output;
  if (x && rois) output = ir::Shape{(*rois)[0], (*x)[1], setting.height, setting.width};
  ctx.set(0, ctx.dtype(0), output);
}

/// Calls use(corner value * weight) for the four neighbours of a point; a point more than one pixel outside counts as
/// 0.
template <class T, class F>
void sample(const T* plane, int64_t height, int64_t width, double y, double x, F&& use) {
  if (y < -1 || y > static_cast<double>(height) || x < -1 || x > static_cast<double>(width)) {
    for (int corner = 0; corner < 4; ++corner) use(0.0);
    return;
  }
  y = std::max(y, 0.0), x = std::max(x, 0.0);
  int64_t top = static_cast<int64_t>(y), left = static_cast<int64_t>(x);
  if (top >= height - 1) top = height - 1, y = static_cast<double>(top);
  if (left >= width - 1) left = width - 1, x = static_cast<double>(left);
  const int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
  const double down = y - static_cast<double>(top), across = x - static_cast<double>(left);
  use((1 - down) * (1 - across) * plane[top * width + left]);
  use((1 - down) * across * plane[top * width + right]);
  use(down * (1 - across) * plane[bottom * width + left]);
  use(down * across * plane[bottom * width + right]);
}

void evaluate(Evaluation& ctx) {
  const Setting setting = read_setting(ctx);
  const Tensor& x = ctx.input(0);
  const Dims& dims = x.dims();
  const std::vector<double> rois = reals(ctx, ctx.input(1));
  const std::vector<int64_t> batches = ctx.integers(2);
  if (dims.rank() != 4) ctx.fail("the input must be N x C x H x W");
  if (rois.size() != batches.size() * 4) ctx.fail("regions and batch indices are of different counts");
  for (int64_t batch : batches)
    if (batch < 0 || batch >= dims[0]) ctx.fail("a batch index is " + std::to_string(batch));
  const int64_t channels = dims[1], height = dims[2], width = dims[3];
  if (height < 1 || width < 1) ctx.fail("the input has empty planes");
  Tensor& output =
      ctx.output(0, x.dtype(), Dims{static_cast<int64_t>(batches.size()), channels, setting.height, setting.width});
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = output.data<T>();
    for (size_t r = 0; r < batches.size(); ++r) {
      const double shift = setting.half_pixel ? 0.5 : 0;
      const double left = rois[r * 4] * setting.scale - shift, top = rois[r * 4 + 1] * setting.scale - shift;
      double w = rois[r * 4 + 2] * setting.scale - shift - left, h = rois[r * 4 + 3] * setting.scale - shift - top;
      if (!setting.half_pixel) w = std::max(w, 1.0), h = std::max(h, 1.0);
      const double bin_h = h / static_cast<double>(setting.height), bin_w = w / static_cast<double>(setting.width);
      const auto steps = [&](double bin) {
        if (setting.ratio > 0) return setting.ratio;
        return std::isfinite(bin) ? static_cast<int64_t>(std::clamp(std::ceil(bin), 0.0, 1024.0)) : int64_t{0};
      };
      const int64_t rows = steps(bin_h), columns = steps(bin_w);
      for (int64_t c = 0; c < channels; ++c) {
        const T* plane = x.data<T>() + (batches[r] * channels + c) * height * width;
        for (int64_t i = 0; i < setting.height; ++i)
          for (int64_t j = 0; j < setting.width; ++j) {
            double sum = 0, best = -INFINITY;
            for (int64_t p = 0; p < rows; ++p)
              for (int64_t q = 0; q < columns; ++q) {
                const double at_y =
                    top + bin_h * (static_cast<double>(i) + (static_cast<double>(p) + 0.5) / static_cast<double>(rows));
                const double at_x = left + bin_w * (static_cast<double>(j) +
                                                    (static_cast<double>(q) + 0.5) / static_cast<double>(columns));
                sample(plane, height, width, at_y, at_x,
                       [&](double value) { sum += value, best = std::max(best, value); });
              }
            const int64_t count = rows * columns;
            *to++ = rounded<T>(count == 0 ? 0 : setting.maximum ? best : sum / static_cast<double>(count));
          }
      }
    }
  });
}

TENON_OP("RoiAlign", 3, 3, 1, 1, infer, evaluate,
         {attr::text("coordinate_transformation_mode").one_of({"half_pixel", "output_half_pixel"}).from(16),
          attr::text("mode").one_of({"avg", "max"}), attr::integer("output_height").at_least(1),
          attr::integer("output_width").at_least(1), attr::integer("sampling_ratio").at_least(0),
          attr::real("spatial_scale")});

}  // namespace
}  // namespace tenon::ops::roi_align
