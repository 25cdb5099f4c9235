// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/counted.h"
#include "ops/broadcast.h"

/// Resize by separable taps: along each axis an output index has source indices with weights, as ONNX defines them.
namespace tenon::ops::resizing {

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

struct Taps {
  std::vector<int64_t> index;  // -1: outside the image, where the extrapolation value goes
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
std::vector<Axis> resized(const auto& ctx, const Dims& dims, const std::vector<double>& scales,
                          const std::vector<int64_t>& sizes) {
  std::vector<Axis> result(dims.rank());
  for (size_t axis = 0; axis < dims.rank(); ++axis) result[axis].in = result[axis].out = dims[axis];
  const std::vector<size_t> axes = axes_of(ctx, dims.rank());
  if ((!scales.empty() && scales.size() != axes.size()) || (!sizes.empty() && sizes.size() != axes.size()))
    ctx.fail("scales or sizes do not fit " + counted(axes.size(), "axis"));
  for (size_t k = 0; k < axes.size(); ++k) {
    Axis& axis = result[axes[k]];
    if (!scales.empty()) {
      axis.scale = scales[k];
      if (!(axis.scale > 0) || axis.scale > 1e9)
        ctx.fail("a scale is " + fmt::format("{}", static_cast<float>(axis.scale)));
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
    for (size_t axis : axes)
      scale = policy == "not_larger" ? std::min(scale, result[axis].scale) : std::max(scale, result[axis].scale);
    for (size_t axis : axes) {
      result[axis].scale = scale;
      result[axis].out = static_cast<int64_t>(std::floor(scale * static_cast<double>(result[axis].in) + 0.5));
    }
  }
  return result;
}

inline double source(const std::string& transform, const Axis& axis, int64_t at) {
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

inline int64_t nearest(const std::string& mode, double x) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

inline double kernel(bool cubic, double a, double x) {
  x = std::abs(x);
  if (!cubic) return std::max(0.0, 1 - x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

inline std::vector<Taps> taps_of(const ir::Node& node, const Axis& axis) {
  const std::string mode = node.text("mode", "nearest"),
                    transform = node.text("coordinate_transformation_mode", "half_pixel");
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
    for (int64_t k = static_cast<int64_t>(std::ceil(x - reach)); k <= static_cast<int64_t>(std::floor(x + reach));
         ++k) {
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

}  // namespace tenon::ops::resizing
