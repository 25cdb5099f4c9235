// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/floats.h"
#include "ops/layout.h"
#include "ops/scalar.h"

namespace tenon::ops::global_pool {
namespace {

void infer_global(Inference& ctx) {
  const bool last = channels_last(ctx);
  std::optional<ir::Shape> output;
  if (const ir::Shape* x = ctx.shape(0)) {
    if (x->size() < 3) ctx.fail("the input has rank " + std::to_string(x->size()) + "; at least 3 is needed");
    output = ir::Shape(x->size(), ir::Dim(1));
    const size_t channel = last ? x->size() - 1 : 1;
    (*output)[0] = (*x)[0];
    (*output)[channel] = (*x)[channel];
  }
  ctx.set(0, ctx.dtype(0), output);
}

/// value(first element, count) of each plane.
template <class F>
void reduce_planes(Evaluation& ctx, F&& value) {
  const bool last = channels_last(ctx);
  const Tensor x = to_channels_first(ctx.input(0), last);
  if (x.dims().rank() < 3) ctx.fail("the input has rank " + std::to_string(x.dims().rank()) + "; at least 3 is needed");
  Dims out = x.dims();
  for (size_t axis = 2; axis < out.rank(); ++axis) out[axis] = 1;
  const int64_t planes = out.elements();
  if (planes > 0 && x.elements() == 0) ctx.fail("the input " + x.dims().str() + " has empty planes");
  Tensor y(x.dtype(), out);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const int64_t count = planes ? x.elements() / planes : 0;
    for (int64_t plane = 0; plane < planes; ++plane)
      y.data<T>()[plane] = rounded<T>(value(x.data<T>() + plane * count, count));
  });
  deliver(ctx, 0, x.dtype(), to_channels_last(y, last));
}

void evaluate_average(Evaluation& ctx) {
  reduce_planes(ctx, [](const auto* from, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += from[i];
    return sum / static_cast<double>(count);
  });
}

void evaluate_max(Evaluation& ctx) {
  reduce_planes(ctx, [](const auto* from, int64_t count) {
    double best = from[0];
    for (int64_t i = 1; i < count; ++i) best = scalar::maximum<double>(best, static_cast<double>(from[i]));
    return best;
  });
}

void evaluate_lp(Evaluation& ctx) {
  const int64_t p = ctx.node().integer("p", 2);
  if (p < 1) ctx.fail("p is " + std::to_string(p));
  reduce_planes(ctx, [p](const auto* from, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::pow(std::fabs(static_cast<double>(from[i])), p);
    return std::pow(sum, 1.0 / static_cast<double>(p));
  });
}

TENON_OP("GlobalAveragePool", 1, 1, 1, 1, infer_global, evaluate_average, layout_attribute(),
         Trait::same_type | Trait::same_rank | Trait::int8 | Trait::half | Trait::global | Reduction::mean);
TENON_OP("GlobalMaxPool", 1, 1, 1, 1, infer_global, evaluate_max, layout_attribute(),
         Trait::same_type | Trait::same_rank | Trait::half | Trait::global | Reduction::largest);
TENON_OP("GlobalLpPool", 1, 1, 1, 1, infer_global, evaluate_lp,
         AttributeDefs{attr::real("p").up_to(1), attr::integer("p").at_least(1).from(2)} + layout_attribute(),
         Trait::same_type | Trait::same_rank | Trait::global);

}  // namespace
}  // namespace tenon::ops::global_pool
