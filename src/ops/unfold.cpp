// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/layout.h"
#include "ops/window.h"

/// Internal op Unfold: windows of an image (N, C, H, W, or channels last) as (N, C, kernel, kernel, rows, columns), by
/// the window's places first: what Col2Im puts together again. Pads are zeros.
namespace tenon::ops::unfold {
namespace {

using List = std::vector<int64_t>;

struct Windows {
  List kernel, strides, dilations, pads;
  explicit Windows(auto& ctx)
      : kernel(window_list(ctx, "kernel_shape", 2, 1, 1)),
        strides(window_list(ctx, "strides", 2, 1, 1)),
        dilations(window_list(ctx, "dilations", 2, 1, 1)),
        pads(window_list(ctx, "pads", 4, 0, 0)) {}
  /// What the padded size has beyond one window.
  int64_t beyond(size_t axis) const { return pads[axis] + pads[axis + 2] - (kernel[axis] - 1) * dilations[axis] - 1; }
};

void infer(Inference& ctx) {
  const Windows windows(ctx);
  const bool last = channels_last(ctx);
  const ir::Shape* x = ctx.shape(0);
  if (!x) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 6));
  if (x->size() != 4) ctx.fail("the input has rank " + std::to_string(x->size()) + ", not 4");
  ir::Shape y{(*x)[0], (*x)[last ? 3 : 1], windows.kernel[0], windows.kernel[1]};
  for (size_t axis = 0; axis < 2; ++axis) {
    const ir::Dim room = (*x)[axis + (last ? 1 : 2)] + ir::Dim(windows.beyond(axis));
    if (room.is_constant() && room.value() < 0) ctx.fail("the window is larger than the image");
    y.push_back(room.floor_div(windows.strides[axis]) + ir::Dim(1));
  }
  ctx.set(0, ctx.dtype(0), std::move(y));
}

void evaluate(Evaluation& ctx) {
  const Windows windows(ctx);
  if (ctx.input(0).dims().rank() != 4) ctx.fail("the input is no image");
  const Tensor x = move_channel(ctx.input(0), channels_last(ctx), false);
  const Dims& in = x.dims();
  Dims y{in[0], in[1], windows.kernel[0], windows.kernel[1]};
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t room = in[axis + 2] + windows.beyond(axis);
    if (room < 0) ctx.fail("the window is larger than the image");
    y.push_back(room / windows.strides[axis] + 1);
  }
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), y));
    const auto place = [&](size_t axis, int64_t tap, int64_t step) {
      return step * windows.strides[axis] + tap * windows.dilations[axis] - windows.pads[axis];
    };
    for (int64_t plane = 0; plane < in[0] * in[1]; ++plane, from += in[2] * in[3])
      for (int64_t taps = 0; taps < y[2] * y[3]; ++taps)
        for (int64_t steps = 0; steps < y[4] * y[5]; ++steps) {
          const int64_t h = place(0, taps / y[3], steps / y[5]), w = place(1, taps % y[3], steps % y[5]);
          *to++ = h >= 0 && h < in[2] && w >= 0 && w < in[3] ? from[h * in[3] + w] : T{};
        }
  });
}

TENON_OP("tenon:Unfold", 1, 1, 1, 1, infer, evaluate,
         layout_attribute() + AttributeDefs{attr::integers("kernel_shape").at_least(1).required().internal(),
                                            attr::integers("strides").at_least(1).internal(),
                                            attr::integers("dilations").at_least(1).internal(),
                                            attr::integers("pads").at_least(0).internal()},
         Trait::moves | Trait::same_type | Trait::half);

}  // namespace
}  // namespace tenon::ops::unfold
