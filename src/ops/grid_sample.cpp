// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include "ops/floats.h"
#include "ops/window.h"

namespace tenon::ops::grid_sample {
namespace {

enum class Mode { nearest, linear, cubic };
enum class Padding { zeros, border, reflection };

struct Setting {
  Mode mode;
  Padding padding;
  bool corners;
};

template <class Context>
Setting read_setting(Context& ctx, size_t spatial) {
  const std::string mode = ctx.node().text("mode", "linear"), padding = ctx.node().text("padding_mode", "zeros");
  Setting setting{Mode::linear, Padding::zeros, ctx.node().integer("align_corners", 0) != 0};
  if (mode == "nearest") setting.mode = Mode::nearest;
  else if (mode == "cubic" || mode == "bicubic") setting.mode = Mode::cubic;
  else if (mode != "linear" && mode != "bilinear") ctx.fail("mode is \"" + mode + "\"");
  if (padding == "border") setting.padding = Padding::border;
  else if (padding == "reflection") setting.padding = Padding::reflection;
  else if (padding != "zeros") ctx.fail("padding_mode is \"" + padding + "\"");
  if (spatial < 1 || spatial > 3) ctx.fail(std::to_string(spatial) + " spatial axes; 1 to 3 are supported");
  if (setting.mode == Mode::cubic && spatial != 2) ctx.fail("cubic sampling needs two spatial axes");
  return setting;
}

template <class Context>
ir::Shape sized(Context& ctx, const ir::Shape& x, const ir::Shape& grid) {
  if (x.size() < 3 || grid.size() != x.size() || differ(grid.back(), static_cast<int64_t>(x.size()) - 2) ||
      differ(x[0], grid[0]))
    ctx.fail("input " + ir::str(x) + " and grid " + ir::str(grid) + " do not fit");
  ir::Shape output{x[0], x[1]};
  output.insert(output.end(), grid.begin() + 1, grid.end() - 1);
  return output;
}

void infer(Inference& ctx) {
  const ir::Shape *x = ctx.shape(0), *grid = ctx.shape(1);
  if (x) read_setting(ctx, x->size() - std::min<size_t>(2, x->size()));
  ctx.set(0, ctx.dtype(0), x && grid ? std::optional(sized(ctx, *x, *grid)) : std::nullopt);
}

/// Folds a coordinate into [low, high] by reflections at both ends.
double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double away = std::fabs(x - low), turns = std::floor(away / range), rest = away - turns * range;
  return std::fmod(turns, 2) == 0 ? low + rest : high - rest;
}

double placed(double x, int64_t size, const Setting& setting) {
  const auto last = static_cast<double>(size - 1);
  if (setting.padding == Padding::border) return std::clamp(x, 0.0, last);
  if (setting.padding == Padding::reflection)
    return setting.corners ? reflected(x, 0, last) : std::clamp(reflected(x, -0.5, last + 0.5), 0.0, last);
  return x;
}

/// Neighbours of a coordinate along one axis and their weights; index -1 stands for zero padding.
struct Taps {
  std::array<int64_t, 4> index{};
  std::array<double, 4> weight{};
  int count = 0;
  void add(double at, double factor, int64_t size, const Setting& setting) {
    if (setting.mode == Mode::cubic) at = placed(at, size, setting);
    const bool inside = at >= 0 && at <= static_cast<double>(size - 1);
    index[count] = inside ? static_cast<int64_t>(at) : -1;
    weight[count++] = factor;
  }
};

Taps taps_of(double normal, int64_t size, const Setting& setting) {
  const auto count = static_cast<double>(size);
  double x = setting.corners ? (normal + 1) / 2 * (count - 1) : ((normal + 1) * count - 1) / 2;
  Taps taps;
  if (!std::isfinite(x)) x = -1e9;
  if (setting.mode != Mode::cubic) x = placed(x, size, setting);
  if (setting.mode == Mode::nearest) {
    taps.add(placed(std::nearbyint(x), size, setting), 1, size, setting);
    return taps;
  }
  const double base = std::floor(x), t = x - base;
  if (setting.mode == Mode::linear) {
    taps.add(base, 1 - t, size, setting);
    taps.add(base + 1, t, size, setting);
    return taps;
  }
  // Keys' cubic convolution with a = -0.75.
  const double a = -0.75;
  const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const double weights[4] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  for (int i = 0; i < 4; ++i) taps.add(base - 1 + i, weights[i], size, setting);
  return taps;
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Dims& dims = x.dims();
  const Dims out = dims_of(sized(ctx, shape_of(dims), shape_of(ctx.input(1).dims())));
  const size_t rank = dims.rank() - 2;
  const Setting setting = read_setting(ctx, rank);
  const std::vector<double> grid = reals(ctx, ctx.input(1));
  int64_t in_plane = 1, out_plane = 1;
  std::array<int64_t, 3> size{1, 1, 1};
  for (size_t axis = 0; axis < rank; ++axis) {
    size[3 - rank + axis] = dims[2 + axis];
    in_plane *= dims[2 + axis];
    out_plane *= out[2 + axis];
  }
  Tensor& y = ctx.output(0, x.dtype(), out);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    for (int64_t n = 0; n < out[0]; ++n)
      for (int64_t p = 0; p < out_plane; ++p) {
        std::array<Taps, 3> taps;
        for (size_t axis = 0; axis < 3; ++axis) {
          // The grid's last axis counts x first.
          if (axis < 3 - rank) taps[axis].add(0, 1, 1, Setting{Mode::linear, Padding::zeros, false});
          else
            taps[axis] =
                taps_of(grid[(n * out_plane + p) * static_cast<int64_t>(rank) + static_cast<int64_t>(2 - axis)],
                        size[axis], setting);
        }
        for (int64_t c = 0; c < out[1]; ++c) {
          const T* plane = x.data<T>() + (n * out[1] + c) * in_plane;
          double sum = 0;
          for (int i = 0; i < taps[0].count; ++i)
            for (int j = 0; j < taps[1].count; ++j)
              for (int k = 0; k < taps[2].count; ++k) {
                const int64_t d = taps[0].index[i], h = taps[1].index[j], w = taps[2].index[k];
                if (d < 0 || h < 0 || w < 0) continue;
                sum +=
                    taps[0].weight[i] * taps[1].weight[j] * taps[2].weight[k] * plane[(d * size[1] + h) * size[2] + w];
              }
          y.data<T>()[(n * out[1] + c) * out_plane + p] = rounded<T>(sum);
        }
      }
  });
}

TENON_OP("GridSample", 2, 2, 1, 1, infer, evaluate,
         {attr::flag("align_corners"), attr::text("mode").one_of({"bilinear", "nearest", "bicubic", "linear", "cubic"}),
          attr::text("padding_mode").one_of({"zeros", "border", "reflection"})});

}  // namespace
}  // namespace tenon::ops::grid_sample
