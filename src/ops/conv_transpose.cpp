// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/epilogue.h"
#include "ops/floats.h"
#include "ops/layout.h"
#include "ops/window.h"

namespace tenon::ops::conv_transpose {
namespace {

struct TransposeSizes {
  Window window;
  int64_t groups = 1;
  ir::Shape output;  // N, M, spatial…
};

/// `x` is N, C, spatial…; `w` is C, M / groups, kernel…. nullopt while the kernel is not known.
template <class Context>
std::optional<TransposeSizes> size_transpose(Context& ctx, const ir::Shape& x, const ir::Shape& w) {
  if (x.size() < 3 || w.size() != x.size())
    ctx.fail("the input is of rank " + std::to_string(x.size()) + " and the weights of rank " +
             std::to_string(w.size()));
  TransposeSizes sizes;
  sizes.groups = ctx.node().integer("group", 1);
  if (sizes.groups < 1 || sizes.groups > int64_t{1} << 31) ctx.fail("group is " + std::to_string(sizes.groups));
  if (differ(x[1], w[0]))
    ctx.fail("the input has " + counted(x[1].str(), "channel") + " where the weights expect " + w[0].str());
  if (w[0] == ir::Dim(0) || w[1] == ir::Dim(0)) ctx.fail("the weights are " + ir::str(w) + ": there is no channel");
  if (w[0].is_constant() && w[0].value() % sizes.groups != 0)
    ctx.fail(counted(w[0].str(), "channel") + " cannot be split into " + counted(sizes.groups, "group"));
  const size_t rank = x.size() - 2;
  std::vector<int64_t> kernel = ctx.node().integers("kernel_shape");
  if (!kernel.empty() && kernel.size() != rank) ctx.fail("kernel_shape has the wrong number of entries");
  const ir::Shape spatial(w.begin() + 2, w.end());
  if (kernel.empty()) {
    if (!is_constant(spatial)) return std::nullopt;
    for (const ir::Dim& dim : spatial) kernel.push_back(dim.value());
  }
  for (size_t axis = 0; axis < rank; ++axis)
    if (differ(spatial[axis], kernel[axis])) ctx.fail("kernel_shape differs from the weights' " + ir::str(w));
  sizes.window = read_window(ctx, kernel);
  Window& window = sizes.window;
  const std::vector<int64_t> extra = window_list(ctx, "output_padding", rank, 0, 0);
  std::vector<int64_t> wanted = ctx.node().integers("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != rank) ctx.fail("output_shape has the wrong number of entries");
  sizes.output = {x[0], w[1] * sizes.groups};
  for (size_t axis = 0; axis < rank; ++axis) {
    const ir::Dim full = (x[axis + 2] - 1) * window.strides[axis] + (extra[axis] + window.extent(axis));
    const bool same = window.auto_pad == AutoPad::same_upper || window.auto_pad == AutoPad::same_lower;
    ir::Dim output = full - (window.begin[axis] + window.end[axis]);
    if (!wanted.empty()) output = wanted[axis];
    else if (same) output = x[axis + 2] * window.strides[axis];
    if (output.is_constant() && (output.value() < 0 || output.value() >= int64_t{1} << 40))
      ctx.fail("the output would have the size " + output.str());
    if ((!wanted.empty() || same) && full.is_constant() && output.is_constant()) {
      const int64_t total = std::max<int64_t>(0, full.value() - output.value());
      window.begin[axis] = window.auto_pad == AutoPad::same_upper ? total / 2 : total - total / 2;
      window.end[axis] = total - window.begin[axis];
    }
    sizes.output.push_back(output);
  }
  return sizes;
}

void infer_transpose(Inference& ctx) {
  const Epilogue epilogue = read_epilogue(ctx);
  const bool last = channels_last(ctx);
  const ir::Shape *x = ctx.shape(0), *w = ctx.shape(1);
  std::optional<ir::Shape> output;
  if (x && w) {
    if (const auto sizes = size_transpose(ctx, last ? move_channel(*x, false) : *x, *w)) {
      output = last ? move_channel(sizes->output, true) : sizes->output;
      check_slopes(ctx, epilogue, sizes->output[1]);
      if (const ir::Shape* bias = ctx.has(2) ? ctx.shape(2) : nullptr;
          bias && (bias->size() != 1 || differ((*bias)[0], sizes->output[1])))
        ctx.fail("the bias has sizes " + ir::str(*bias) + " for " + sizes->output[1].str() + " output channels");
    }
  }
  check_residual(ctx, epilogue, ctx.dtype(0), output);
  ctx.set(0, ctx.dtype(0), output);
}

/// Adds one image of C planes into one of M planes. The window slides over the output: its `in` is the output's size.
template <class T>
void spread(const Window3& window, int64_t groups, int64_t in_channels, int64_t out_channels, const T* x, const T* w,
            double* y) {
  const int64_t in_each = in_channels / groups, out_each = out_channels / groups;
  const auto& in = window.out;
  const auto& out = window.in;
  for (int64_t c = 0; c < in_channels; ++c)
    for (int64_t m = 0; m < out_each; ++m) {
      const T* taps = w + (c * out_each + m) * window.taps();
      double* image = y + (c / in_each * out_each + m) * out[0] * out[1] * out[2];
      const T* from = x + c * in[0] * in[1] * in[2];
      for (int64_t kd = 0; kd < window.kernel[0]; ++kd)
        for (int64_t kh = 0; kh < window.kernel[1]; ++kh)
          for (int64_t kw = 0; kw < window.kernel[2]; ++kw) {
            const double weight = *taps++;
            const auto [d0, d1] = window.reach(0, kd);
            const auto [h0, h1] = window.reach(1, kh);
            const auto [w0, w1] = window.reach(2, kw);
            for (int64_t d = d0; d < d1; ++d)
              for (int64_t h = h0; h < h1; ++h) {
                const int64_t to_d = d * window.stride[0] - window.begin[0] + kd * window.dilation[0];
                const int64_t to_h = h * window.stride[1] - window.begin[1] + kh * window.dilation[1];
                double* row = image + (to_d * out[1] + to_h) * out[2];
                int64_t at = w0 * window.stride[2] - window.begin[2] + kw * window.dilation[2];
                for (int64_t i = w0; i < w1; ++i, at += window.stride[2])
                  row[at] += weight * from[(d * in[1] + h) * in[2] + i];
              }
          }
    }
}

void evaluate_transpose(Evaluation& ctx) {
  const DType dtype = ctx.input(0).dtype();
  const bool last = channels_last(ctx);
  const Tensor x = to_channels_first(as_f32(ctx.input(0)), last), w = as_f32(ctx.input(1));
  if (x.dtype() != w.dtype()) ctx.fail("input and weights are of different element types");
  const TransposeSizes sizes = *size_transpose(ctx, shape_of(x.dims()), shape_of(w.dims()));
  const Dims out = dims_of(sizes.output);
  const std::vector<double> bias =
      ctx.has(2) ? reals(ctx, ctx.input(2)) : std::vector<double>(static_cast<size_t>(out[1]));
  if (static_cast<int64_t>(bias.size()) != out[1]) ctx.fail("the bias does not fit the output channels");
  const Window3 window = window3(sizes.window, {out.begin() + 2, out.end()}, {x.dims().begin() + 2, x.dims().end()});
  const int64_t plane = window.in_plane(), image = out[1] * plane, from = x.dims()[1] * window.out_plane();
  const Epilogue epilogue = read_epilogue(ctx);
  Tensor residual;
  if (epilogue.residual != Residual::none) {
    if (!ctx.has(3)) ctx.fail("a residual is asked for but input 3 is absent");
    residual = to_channels_first(as_f32(ctx.input(3)), last);
    if (residual.dtype() != x.dtype() || residual.dims() != out) ctx.fail("the residual does not fit the output");
  }
  Tensor y(x.dtype(), out);
  with_wide(ctx, x.dtype(), [&]<class T>(Type<T>) {
    std::vector<double> sums(static_cast<size_t>(y.elements() ? image : 0));
    for (int64_t n = 0; n < out[0] && !sums.empty(); ++n) {
      for (int64_t i = 0; i < image; ++i) sums[i] = bias[i / plane];
      spread(window, sizes.groups, x.dims()[1], out[1], x.data<T>() + n * from, w.data<T>(), sums.data());
      std::copy(sums.begin(), sums.end(), y.data<T>() + n * image);
    }
    apply(epilogue, y.data<T>(), residual ? residual.data<T>() : nullptr, y.elements(), out[1], plane);
  });
  deliver(ctx, 0, dtype, to_channels_last(y, last));
}

TENON_OP("ConvTranspose", 2, 4, 1, 1, infer_transpose, evaluate_transpose,
         AttributeDefs{attr::text("auto_pad").one_of({"", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}),
                       attr::integers("dilations").at_least(1), attr::integer("group").at_least(1),
                       attr::integers("kernel_shape").at_least(1), attr::integers("output_padding").at_least(0),
                       attr::integers("output_shape"), attr::integers("pads").at_least(0),
                       attr::integers("strides").at_least(1)} +
             layout_attribute() + epilogue_attributes(),
         Trait::product | Trait::same_type | Trait::same_rank | Traits::standard_inputs(3));

}  // namespace
}  // namespace tenon::ops::conv_transpose
