// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "base/counted.h"
#include "ops/layout.h"
#include "ops/window.h"

/// Sizes and the plain loop of convolution, shared by Conv, ConvInteger and QLinearConv.
namespace tenon::ops {

struct ConvSizes {
  Window window;
  int64_t groups = 1;
  ir::Shape output;  // N, M, spatial…
};

/// `x` is N, C, spatial…; `w` is M, C / groups, kernel…. nullopt while the kernel is not known.
template <class Context>
std::optional<ConvSizes> size_convolution(Context& ctx, const ir::Shape& x, const ir::Shape& w) {
  if (x.size() < 3) ctx.fail("the input has rank " + std::to_string(x.size()) + "; at least 3 is needed");
  if (w.size() != x.size())
    ctx.fail("the weights have rank " + std::to_string(w.size()) + " and the input " + std::to_string(x.size()));
  ConvSizes sizes;
  sizes.groups = ctx.node().integer("group", 1);
  if (sizes.groups < 1 || sizes.groups > int64_t{1} << 31) ctx.fail("group is " + std::to_string(sizes.groups));
  if (differ(x[1], w[1] * sizes.groups))
    ctx.fail(
        "the input has " + counted(x[1].str(), "channel") + " where the weights expect " + (w[1] * sizes.groups).str(),
        "check the input's layout: it must be N, C, H, W");
  if (w[0] == ir::Dim(0)) ctx.fail("the weights are " + ir::str(w) + ": there is no output channel");
  if (w[0].is_constant() && w[0].value() % sizes.groups != 0)
    ctx.fail(w[0].str() + " output channels cannot be split into " + counted(sizes.groups, "group"));
  std::vector<int64_t> kernel = ctx.node().integers("kernel_shape");
  if (!kernel.empty() && kernel.size() != x.size() - 2) ctx.fail("kernel_shape has the wrong number of entries");
  const ir::Shape spatial(w.begin() + 2, w.end());
  if (kernel.empty()) {
    if (!is_constant(spatial)) return std::nullopt;
    for (const ir::Dim& dim : spatial) kernel.push_back(dim.value());
  }
  for (size_t axis = 0; axis < spatial.size(); ++axis)
    if (differ(spatial[axis], kernel[axis])) ctx.fail("kernel_shape differs from the weights' " + ir::str(w));
  sizes.window = read_window(ctx, kernel);
  sizes.output = {x[0], w[0]};
  for (size_t axis = 0; axis < kernel.size(); ++axis)
    sizes.output.push_back(slide(ctx, sizes.window, axis, x[axis + 2]));
  return sizes;
}

inline std::vector<int64_t> spatial(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

/// y[m][out] += sum over channels and taps; `y` holds one image of `out_channels` planes and comes initialised (bias or
/// zero).
template <class T, class Acc>
void convolve(const Window3& window, int64_t groups, int64_t in_channels, int64_t out_channels, const T* x, const T* w,
              Acc* y) {
  const int64_t in_each = in_channels / groups, out_each = out_channels / groups;
  const auto& in = window.in;
  const auto& out = window.out;
  for (int64_t m = 0; m < out_channels; ++m)
    for (int64_t c = 0; c < in_each; ++c) {
      const T* image = x + (m / out_each * in_each + c) * window.in_plane();
      const T* taps = w + (m * in_each + c) * window.taps();
      for (int64_t kd = 0; kd < window.kernel[0]; ++kd)
        for (int64_t kh = 0; kh < window.kernel[1]; ++kh)
          for (int64_t kw = 0; kw < window.kernel[2]; ++kw) {
            const Acc weight = static_cast<Acc>(*taps++);
            const auto [d0, d1] = window.reach(0, kd);
            const auto [h0, h1] = window.reach(1, kh);
            const auto [w0, w1] = window.reach(2, kw);
            for (int64_t d = d0; d < d1; ++d)
              for (int64_t h = h0; h < h1; ++h) {
                const int64_t row_d = d * window.stride[0] - window.begin[0] + kd * window.dilation[0];
                const int64_t row_h = h * window.stride[1] - window.begin[1] + kh * window.dilation[1];
                const T* row = image + (row_d * in[1] + row_h) * in[2];
                Acc* to = y + ((m * out[0] + d) * out[1] + h) * out[2];
                int64_t at = w0 * window.stride[2] - window.begin[2] + kw * window.dilation[2];
                for (int64_t i = w0; i < w1; ++i, at += window.stride[2]) to[i] += weight * static_cast<Acc>(row[at]);
              }
          }
    }
}

}  // namespace tenon::ops
