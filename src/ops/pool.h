// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "base/counted.h"
#include "ops/floats.h"
#include "ops/layout.h"
#include "ops/window.h"

/// Sizes and loops of pooling.
namespace tenon::ops {

struct PoolSizes {
  Window window;
  ir::Shape output;
};

/// `x` is N, C, spatial…. A global pool has the whole input as its window.
template <class Context>
PoolSizes size_pool(Context& ctx, const ir::Shape& x) {
  if (x.size() < 3) ctx.fail("the input has rank " + std::to_string(x.size()) + "; at least 3 is needed");
  std::vector<int64_t> kernel = ctx.node().integers("kernel_shape");
  if (kernel.size() != x.size() - 2)
    ctx.fail("kernel_shape has " + counted(kernel.size(), "entry") + " for " + std::to_string(x.size() - 2) +
             " spatial axes");
  PoolSizes sizes{read_window(ctx, std::move(kernel)), {x[0], x[1]}};
  for (size_t axis = 0; axis + 2 < x.size(); ++axis)
    sizes.output.push_back(slide(ctx, sizes.window, axis, x[axis + 2]));
  return sizes;
}

inline void infer_pool(Inference& ctx) {
  const bool last = channels_last(ctx);
  std::optional<ir::Shape> output;
  if (const ir::Shape* x = ctx.shape(0)) {
    output = size_pool(ctx, last ? move_channel(*x, false) : *x).output;
    if (last) output = move_channel(*output, true);
  }
  ctx.set(0, ctx.dtype(0), output);
  if (ctx.outputs() > 1) ctx.set(1, DType::i64, output);
}

/// Calls visit(output offset, plane start, window, d, h, w) for every output of every plane.
template <class F>
void each_window(const Window3& window, int64_t planes, F&& visit) {
  int64_t at = 0;
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t d = 0; d < window.out[0]; ++d)
      for (int64_t h = 0; h < window.out[1]; ++h)
        for (int64_t w = 0; w < window.out[2]; ++w)
          visit(at++, plane * window.in_plane(), std::array<int64_t, 3>{d, h, w});
}

/// Calls visit(offset in the plane) for every input under the window of an output position.
template <class F>
void each_tap(const Window3& window, const std::array<int64_t, 3>& output, F&& visit) {
  const auto [d0, d1] = window.taps_at(0, output[0]);
  const auto [h0, h1] = window.taps_at(1, output[1]);
  const auto [w0, w1] = window.taps_at(2, output[2]);
  const auto position = [&](size_t axis, int64_t k) {
    return output[axis] * window.stride[axis] - window.begin[axis] + k * window.dilation[axis];
  };
  for (int64_t kd = d0; kd < d1; ++kd)
    for (int64_t kh = h0; kh < h1; ++kh)
      for (int64_t kw = w0; kw < w1; ++kw)
        visit((position(0, kd) * window.in[1] + position(1, kh)) * window.in[2] + position(2, kw));
}

}  // namespace tenon::ops
