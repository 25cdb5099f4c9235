// SPDX-License-Identifier: Apache-2.0
#include "ops/pool.h"

namespace tenon::ops::max_pool {
namespace {

using Poolable = Types<float, double, Half, BFloat, E4M3, int8_t, uint8_t>;

/// Whether the value takes the top's place: the first that is no number stays.
template <class V>
bool above(V value, V top) {
  return top == top && !(value <= top);
}

/// An offset in a row-major plane as one in column-major order.
int64_t column_major(const Window3& window, int64_t offset) {
  const int64_t w = offset % window.in[2], h = offset / window.in[2] % window.in[1],
                d = offset / window.in[2] / window.in[1];
  return (w * window.in[1] + h) * window.in[0] + d;
}

void evaluate(Evaluation& ctx) {
  const bool last = channels_last(ctx), columns = ctx.node().integer("storage_order", 0) != 0;
  const Tensor x = to_channels_first(ctx.input(0), last);
  const PoolSizes sizes = size_pool(ctx, shape_of(x.dims()));
  const Dims out = dims_of(sizes.output);
  const Window3 window = window3(sizes.window, {x.dims().begin() + 2, x.dims().end()}, {out.begin() + 2, out.end()});
  Tensor y(x.dtype(), out), indices(DType::i64, ctx.wants(1) ? out : Dims{0});
  dispatch<Poolable>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    each_window(window, out[0] * out[1], [&](int64_t at, int64_t plane, const auto& position) {
      const T* from = x.data<T>() + plane;
      int64_t best = -1;
      each_tap(window, position, [&](int64_t tap) {
        const auto value = static_cast<Wide<T>>(from[tap]);
        const auto top = best < 0 ? value : static_cast<Wide<T>>(from[best]);
        if (best < 0 || above(value, top)) best = tap;
      });
      if (best >= 0) y.data<T>()[at] = from[best];
      else y.data<T>()[at] = static_cast<T>(std::numeric_limits<Wide<T>>::lowest());
      if (ctx.wants(1))
        indices.data<int64_t>()[at] = best < 0 ? -1 : plane + (columns ? column_major(window, best) : best);
    });
  });
  deliver(ctx, 0, x.dtype(), to_channels_last(y, last));
  if (ctx.wants(1)) deliver(ctx, 1, DType::i64, to_channels_last(indices, last));
}

TENON_OP("MaxPool", 1, 1, 1, 2, infer_pool, evaluate,
         AttributeDefs{attr::text("auto_pad").one_of({"", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}),
                       attr::flag("ceil_mode").from(10), attr::integers("dilations").at_least(1).from(10),
                       attr::integers("kernel_shape").at_least(1).required(), attr::integers("pads").at_least(0),
                       attr::flag("storage_order").from(8), attr::integers("strides").at_least(1)} +
             layout_attribute(),
         Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half | Trait::window | Reduction::largest);

}  // namespace
}  // namespace tenon::ops::max_pool
