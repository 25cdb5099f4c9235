// SPDX-License-Identifier: Apache-2.0
#include "ops/pool.h"

namespace tenon::ops::average_pool {
namespace {

/// Taps of a window that lie inside the padded input: what count_include_pad divides by. Positions added by ceil_mode
/// do not count.
int64_t padded_taps(const Window3& window, const std::array<int64_t, 3>& output) {
  int64_t count = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t room = window.in[axis] + window.begin[axis] + window.end[axis] - output[axis] * window.stride[axis];
    count *= std::min(window.kernel[axis], (room + window.dilation[axis] - 1) / window.dilation[axis]);
  }
  return count;
}

template <class F>
void pool(Evaluation& ctx, F&& value) {
  const bool last = channels_last(ctx);
  const Tensor x = to_channels_first(ctx.input(0), last);
  const PoolSizes sizes = size_pool(ctx, shape_of(x.dims()));
  const Dims out = dims_of(sizes.output);
  const Window3 window = window3(sizes.window, {x.dims().begin() + 2, x.dims().end()}, {out.begin() + 2, out.end()});
  Tensor y(x.dtype(), out);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    each_window(window, out[0] * out[1], [&](int64_t at, int64_t plane, const auto& position) {
      y.data<T>()[at] = rounded<T>(value(window, x.data<T>() + plane, position));
    });
  });
  deliver(ctx, 0, x.dtype(), to_channels_last(y, last));
}

void evaluate_average(Evaluation& ctx) {
  const bool include = ctx.node().integer("count_include_pad", 0) != 0;
  pool(ctx, [&](const Window3& window, const auto* from, const auto& position) {
    double sum = 0;
    int64_t count = 0;
    each_tap(window, position, [&](int64_t tap) { sum += from[tap], ++count; });
    if (include) count = padded_taps(window, position);
    return count ? sum / static_cast<double>(count) : 0.0;
  });
}

void evaluate_lp(Evaluation& ctx) {
  const int64_t p = ctx.node().integer("p", 2);
  if (p < 1) ctx.fail("p is " + std::to_string(p));
  pool(ctx, [&](const Window3& window, const auto* from, const auto& position) {
    double sum = 0;
    each_tap(window, position, [&](int64_t tap) { sum += std::pow(std::fabs(static_cast<double>(from[tap])), p); });
    return std::pow(sum, 1.0 / static_cast<double>(p));
  });
}

TENON_OP("AveragePool", 1, 1, 1, 1, infer_pool, evaluate_average,
         AttributeDefs{attr::text("auto_pad").one_of({"", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}),
                       attr::flag("ceil_mode").from(10), attr::flag("count_include_pad").from(7),
                       attr::integers("dilations").at_least(1).from(19),
                       attr::integers("kernel_shape").at_least(1).required(), attr::integers("pads").at_least(0),
                       attr::integers("strides").at_least(1)} +
             layout_attribute(),
         Trait::same_type | Trait::same_rank | Trait::int8 | Trait::half | Trait::window | Reduction::mean);
TENON_OP("LpPool", 1, 1, 1, 1, infer_pool, evaluate_lp,
         AttributeDefs{attr::text("auto_pad").one_of({"", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}),
                       attr::flag("ceil_mode").from(18), attr::integers("dilations").at_least(1).from(18),
                       attr::integers("kernel_shape").at_least(1).up_to(1),
                       attr::integers("kernel_shape").at_least(1).from(2).required(), attr::real("p").up_to(1),
                       attr::integer("p").at_least(1).from(2), attr::integers("pads").at_least(0),
                       attr::integers("strides").at_least(1)} +
             layout_attribute(),
         Trait::same_type | Trait::same_rank | Trait::window);

}  // namespace
}  // namespace tenon::ops::average_pool
