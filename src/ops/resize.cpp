// SPDX-License-Identifier: Apache-2.0
#include "ops/resize.h"

#include <limits>

#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::resize {
namespace {

using resizing::Axis, resizing::Taps, resizing::axes_of, resizing::resized, resizing::taps_of;

void infer(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  if (!from) return ctx.set(0, ctx.dtype(0), std::nullopt);
  const std::vector<size_t> axes = axes_of(ctx, from->size());
  const Tensor* scales = ctx.has(2) ? ctx.constant(2) : nullptr;
  const auto sizes = ctx.has(3) ? ctx.content(3) : std::nullopt;
  ir::Shape to = *from;
  if (scales && scales->elements() > 0) {
    if (scales->dtype() != DType::f32 || scales->elements() != static_cast<int64_t>(axes.size()))
      ctx.fail("scales do not fit the axes");
    for (size_t k = 0; k < axes.size(); ++k) {
      const double scale = scales->data<float>()[k];
      ir::Dim& dim = to[axes[k]];
      if (!(scale > 0) || scale > 1e9) ctx.fail("a scale is " + fmt::format("{}", static_cast<float>(scale)));
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

template <class T>
T rounded(double value) {
  if constexpr (std::is_integral_v<T>) {
    const double whole = std::nearbyint(value);
    return static_cast<T>(std::clamp(whole, static_cast<double>(std::numeric_limits<T>::min()),
                                     static_cast<double>(std::numeric_limits<T>::max())));
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
      values.push_back(tensor.dtype() == DType::f64   ? tensor.data<double>()[i]
                       : tensor.dtype() == DType::f32 ? tensor.data<float>()[i]
                                                      : 0.0);
    return values;
  };
  const std::vector<double> scales = floats(2), roi = floats(1);
  const std::vector<int64_t> sizes = ctx.has(3) && ctx.input(3).elements() ? ctx.integers(3) : std::vector<int64_t>{};
  std::vector<Axis> axes = resized(ctx, x.dims(), scales, sizes);
  if (ctx.node().text("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    const auto named = axes_of(ctx, x.dims().rank());
    if (roi.size() != 2 * named.size()) ctx.fail("the region of interest does not fit the axes");
    for (size_t k = 0; k < named.size(); ++k)
      axes[named[k]].roi_begin = roi[k], axes[named[k]].roi_end = roi[k + named.size()];
  }
  Dims dims;
  for (const Axis& axis : axes) dims.push_back(axis.out);
  Tensor& y = ctx.output(0, x.dtype(), dims);
  if (dims.elements() == 0) return;
  if (x.elements() == 0) ctx.fail("an empty input cannot be resized to " + dims.str());
  const double outside = ctx.node().real("extrapolation_value", 0);
  dispatch<NumbersAndFloat8>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    // One axis after the other; untouched axes cost nothing.
    std::vector<double> from(static_cast<size_t>(x.elements()));
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<double>(x.data<T>()[i]);
    std::vector<char> extrapolated(static_cast<size_t>(x.elements()), 0);
    Dims now = x.dims();
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (axes[axis].in == axes[axis].out && axes[axis].scale == 1 && axes[axis].roi_begin == 0 &&
          axes[axis].roi_end == 1)
        continue;
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

/// The nearest elements are those of the input.
Traits of_nearest(const ir::Node& node) {
  return node.text("mode", "nearest") == "nearest" ? Traits(Trait::same_scale) : Traits();
}

TENON_OP("Resize", 1, 4, 1, 1, infer, evaluate,
         {attr::flag("antialias").from(18), attr::integers("axes").from(18),
          attr::text("coordinate_transformation_mode")
              .one_of({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                       "tf_crop_and_resize", "tf_half_pixel_for_nn"})
              .from(11),
          attr::real("cubic_coeff_a").from(11), attr::flag("exclude_outside").from(11),
          attr::real("extrapolation_value").from(11),
          attr::text("keep_aspect_ratio_policy").one_of({"stretch", "not_larger", "not_smaller"}).from(18),
          attr::text("mode").one_of({"nearest", "linear", "bilinear", "cubic"}),
          attr::text("nearest_mode").one_of({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}).from(11)},
         Trait::moves | Trait::same_type | Trait::same_rank | Trait::half | Trait::int8 |
             Traits::of_some(of_nearest));

}  // namespace
}  // namespace tenon::ops::resize
