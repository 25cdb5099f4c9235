#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "ops/dispatch.h"
#include "ops/inference.h"

/// Resize by separable taps: along each axis an output index has source indices with weights, as ONNX defines them.
namespace tenon::ops {
namespace {

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

struct Taps {
  std::vector<int64_t> index;  // -1: outside the picture, where the extrapolation value goes
  std::vector<double> weight;
};

/// Axes of the operands roi, scales and sizes.
std::vector<size_t> axes_of(const auto& ctx, size_t rank) {
  std::vector<size_t> axes;
  const auto given = ctx.node().integers("axes");
  if (given.empty())
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  for (int64_t axis : given) axes.push_back(normal_axis(ctx, axis, rank));
  return axes;
}

/// The scale and output size of each axis from `scales` or `sizes`.
std::vector<Axis> resized(const auto& ctx, const Dims& dims, const std::vector<double>& scales, const std::vector<int64_t>& sizes) {
  std::vector<Axis> result(dims.rank());
  for (size_t axis = 0; axis < dims.rank(); ++axis) result[axis].in = result[axis].out = dims[axis];
  const std::vector<size_t> axes = axes_of(ctx, dims.rank());
  if ((!scales.empty() && scales.size() != axes.size()) || (!sizes.empty() && sizes.size() != axes.size()))
    ctx.fail("scales or sizes do not fit " + std::to_string(axes.size()) + " axes");
  for (size_t k = 0; k < axes.size(); ++k) {
    Axis& axis = result[axes[k]];
    if (!scales.empty()) {
      axis.scale = scales[k];
      if (!(axis.scale > 0) || axis.scale > 1e9) ctx.fail("a scale is " + std::to_string(axis.scale));
      const double size = std::floor(static_cast<double>(axis.in) * axis.scale);
      if (size > 9e15) ctx.fail("a size leaves the range of integers");
      axis.out = static_cast<int64_t>(size);
    } else if (!sizes.empty()) {
      if (sizes[k] < 0) ctx.fail("a size is negative");
      axis.out = sizes[k];
      axis.scale = axis.in ? static_cast<double>(axis.out) / static_cast<double>(axis.in) : 1;
    }
  }
  const std::string policy = ctx.node().text("keep_aspect_ratio_policy", "stretch");
  if (!sizes.empty() && policy != "stretch") {
    double scale = result[axes[0]].scale;
    for (size_t axis : axes) scale = policy == "not_larger" ? std::min(scale, result[axis].scale) : std::max(scale, result[axis].scale);
    for (size_t axis : axes) {
      result[axis].scale = scale;
      result[axis].out = static_cast<int64_t>(std::floor(scale * static_cast<double>(result[axis].in) + 0.5));
    }
  }
  return result;
}

void infer(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, ctx.dtype(0), std::nullopt);
  const std::vector<size_t> axes = axes_of(ctx, from->size());
  const Tensor* scales = ctx.has(2) ? ctx.constant(2) : nullptr;
  const auto sizes = ctx.has(3) ? ctx.content(3) : std::nullopt;
  ir::Shape to = *from;
  if (scales && scales->elements() > 0) {
    if (scales->dtype() != DType::f32 || scales->elements() != static_cast<int64_t>(axes.size())) ctx.fail("scales do not fit the axes");
    for (size_t k = 0; k < axes.size(); ++k) {
      const double scale = scales->data<float>()[k];
      ir::Dim& dim = to[axes[k]];
      if (!(scale > 0) || scale > 1e9) ctx.fail("a scale is " + std::to_string(scale));
      if (dim.is_constant()) {
        const double size = std::floor(static_cast<double>(dim.value()) * scale);
        if (size > 9e15) ctx.fail("a size leaves the range of integers");
        dim = ir::Dim(static_cast<int64_t>(size));
      } else if (scale == std::floor(scale)) {
        dim = dim * ir::Dim(static_cast<int64_t>(scale));
      } else {
        dim = ctx.unknown();
      }
    }
  } else if (sizes && !sizes->empty() && ctx.node().text("keep_aspect_ratio_policy", "stretch") == "stretch") {
    if (sizes->size() != axes.size()) ctx.fail("sizes do not fit the axes");
    for (size_t k = 0; k < axes.size(); ++k) to[axes[k]] = (*sizes)[k];
  } else if (const auto dims = fixed_dims(from); sizes && !sizes->empty() && dims) {
    std::vector<int64_t> fixed;
    for (const ir::Dim& size : *sizes) {
      if (!size.is_constant()) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, from->size()));
      fixed.push_back(size.value());
    }
    const auto all = resized(ctx, *dims, {}, fixed);
    for (size_t axis = 0; axis < to.size(); ++axis) to[axis] = ir::Dim(all[axis].out);
  } else {
    to = unknown_shape(ctx, from->size());
  }
  ctx.set(0, ctx.dtype(0), std::move(to));
}

double source(const std::string& transform, const Axis& axis, int64_t at) {
  const double x = static_cast<double>(at), in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  if (transform == "asymmetric") return x / axis.scale;
  if (transform == "align_corners") return axis.out == 1 ? 0 : x * (in - 1) / (axis.scale * in - 1);
  if (transform == "pytorch_half_pixel") return axis.out > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
  if (transform == "half_pixel_symmetric") {
    const double adjusted = axis.out / (axis.scale * in);
    return in / 2 * (1 - adjusted) + (x + 0.5) / axis.scale - 0.5;
  }
  if (transform == "tf_crop_and_resize")
    return axis.out > 1 ? axis.roi_begin * (in - 1) + x * (axis.roi_end - axis.roi_begin) * (in - 1) / (out - 1)
                        : 0.5 * (axis.roi_begin + axis.roi_end) * (in - 1);
  return (x + 0.5) / axis.scale - 0.5;
}

int64_t nearest(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

double kernel(bool cubic, double a, double x) {
  x = std::abs(x);
  if (!cubic) return std::max(0.0, 1 - x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

std::vector<Taps> taps_of(const ir::Node& node, const Axis& axis) {
  const std::string mode = node.text("mode", "nearest"), transform = node.text("coordinate_transformation_mode", "half_pixel");
  const bool cubic = mode == "cubic", exclude = node.integer("exclude_outside", 0) != 0;
  const double a = node.real("cubic_coeff_a", -0.75f);
  const double stretch = node.integer("antialias", 0) && axis.scale < 1 ? axis.scale : 1;
  std::vector<Taps> all(static_cast<size_t>(axis.out));
  for (int64_t at = 0; at < axis.out; ++at) {
    Taps& taps = all[static_cast<size_t>(at)];
    const double x = source(transform, axis, at);
    if (transform == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(axis.in - 1))) {
      taps = {{-1}, {1}};
      continue;
    }
    if (mode == "nearest") {
      taps = {{std::clamp<int64_t>(nearest(node.text("nearest_mode", "round_prefer_floor"), x), 0, axis.in - 1)}, {1}};
      continue;
    }
    const double reach = (cubic ? 2 : 1) / stretch;
    double sum = 0;
    for (int64_t k = static_cast<int64_t>(std::ceil(x - reach)); k <= static_cast<int64_t>(std::floor(x + reach)); ++k) {
      const double weight = kernel(cubic, a, (x - static_cast<double>(k)) * stretch);
      if (weight == 0 || (exclude && (k < 0 || k >= axis.in))) continue;
      taps.index.push_back(std::clamp<int64_t>(k, 0, axis.in - 1));
      taps.weight.push_back(weight);
      sum += weight;
    }
    if (taps.index.empty()) taps = {{std::clamp<int64_t>(static_cast<int64_t>(std::lround(x)), 0, axis.in - 1)}, {1}};
    else
      for (double& weight : taps.weight) weight /= sum;
  }
  return all;
}

template <class T>
T rounded(double value) {
  if constexpr (std::is_integral_v<T>) {
    const double whole = std::nearbyint(value);
    return static_cast<T>(std::clamp(whole, static_cast<double>(std::numeric_limits<T>::min()), static_cast<double>(std::numeric_limits<T>::max())));
  } else {
    return T(static_cast<float>(value));
  }
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const auto floats = [&](size_t at) {
    std::vector<double> values;
    if (!ctx.has(at)) return values;
    const Tensor& tensor = ctx.input(at);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      values.push_back(tensor.dtype() == DType::f64 ? tensor.data<double>()[i] : tensor.dtype() == DType::f32 ? tensor.data<float>()[i] : 0.0);
    return values;
  };
  const std::vector<double> scales = floats(2), roi = floats(1);
  const std::vector<int64_t> sizes = ctx.has(3) && ctx.input(3).elements() ? ctx.integers(3) : std::vector<int64_t>{};
  std::vector<Axis> axes = resized(ctx, x.dims(), scales, sizes);
  if (ctx.node().text("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    const auto named = axes_of(ctx, x.dims().rank());
    if (roi.size() != 2 * named.size()) ctx.fail("the region of interest does not fit the axes");
    for (size_t k = 0; k < named.size(); ++k) axes[named[k]].roi_begin = roi[k], axes[named[k]].roi_end = roi[k + named.size()];
  }
  Dims dims;
  for (const Axis& axis : axes) dims.push_back(axis.out);
  Tensor& y = ctx.output(0, x.dtype(), dims);
  if (dims.elements() == 0) return;
  if (x.elements() == 0) ctx.fail("an empty input cannot be resized to " + dims.str());
  const double outside = ctx.node().real("extrapolation_value", 0);
  dispatch<Numbers>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    // One axis after the other; untouched axes cost nothing.
    std::vector<double> from(static_cast<size_t>(x.elements()));
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<double>(x.data<T>()[i]);
    std::vector<char> extrapolated(static_cast<size_t>(x.elements()), 0);
    Dims now = x.dims();
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis].in == axes[axis].out && axes[axis].scale == 1 && axes[axis].roi_begin == 0 && axes[axis].roi_end == 1) continue;
      const std::vector<Taps> taps = taps_of(ctx.node(), axes[axis]);
      int64_t outer = 1, inner = 1;
      for (size_t k = 0; k < axis; ++k) outer *= now[k];
      for (size_t k = axis + 1; k < now.rank(); ++k) inner *= now[k];
      const int64_t in = now[axis], out = axes[axis].out;
      now[axis] = out;
      std::vector<double> to(static_cast<size_t>(now.elements()), 0);
      std::vector<char> to_extrapolated(to.size(), 0);
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t at = 0; at < out; ++at)
          for (size_t k = 0; k < taps[static_cast<size_t>(at)].index.size(); ++k) {
            const int64_t index = taps[static_cast<size_t>(at)].index[k];
            const double weight = taps[static_cast<size_t>(at)].weight[k];
            const size_t dst = static_cast<size_t>((o * out + at) * inner);
            if (index < 0) {
              std::fill_n(to_extrapolated.begin() + static_cast<ptrdiff_t>(dst), inner, 1);
              continue;
            }
            const size_t src = static_cast<size_t>((o * in + index) * inner);
            for (int64_t i = 0; i < inner; ++i) {
              to[dst + i] += weight * from[src + i];
              to_extrapolated[dst + i] |= extrapolated[src + i];
            }
          }
      from = std::move(to);
      extrapolated = std::move(to_extrapolated);
    }
    for (size_t i = 0; i < from.size(); ++i) y.data<T>()[i] = rounded<T>(extrapolated[i] ? outside : from[i]);
  });
}

TENON_OP({"Resize", 1, 4, 1, 1, infer, evaluate, Kind::general});

}  // namespace
}  // namespace tenon::ops
