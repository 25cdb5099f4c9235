// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/broadcast.h"
#include "ops/floats.h"

namespace tenon::ops::mean_variance_normalization {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  if (x) mark_axes(ctx, ctx.node().integers("axes", {0, 2, 3}), x->size());
  ctx.set(0, ctx.dtype(0), x ? std::optional(*x) : std::nullopt);
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Dims& dims = x.dims();
  const auto marked = mark_axes(ctx, ctx.node().integers("axes", {0, 2, 3}), dims.rank());
  Dims kept = dims;
  for (size_t axis = 0; axis < dims.rank(); ++axis)
    if (marked[axis]) kept[axis] = 1;
  const double count = static_cast<double>(x.elements()) / static_cast<double>(std::max<int64_t>(1, kept.elements()));
  const std::array<Strides, 2> strides{strides_of(dims), broadcast_strides(kept, dims)};
  std::vector<double> mean(kept.elements()), variance(kept.elements());
  Tensor& y = ctx.output(0, x.dtype(), dims);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = x.data<T>();
    const auto each = [&](auto&& visit) {
      walk<2>(dims, strides, [&](const auto& at, int64_t run, const auto& step) {
        for (int64_t i = 0; i < run; ++i) visit(at[0] + i * step[0], at[1] + i * step[1]);
      });
    };
    each([&](int64_t at, int64_t group) { mean[group] += static_cast<double>(from[at]) / count; });
    each([&](int64_t at, int64_t group) {
      const double distance = static_cast<double>(from[at]) - mean[group];
      variance[group] += distance * distance / count;
    });
    each([&](int64_t at, int64_t group) {
      y.data<T>()[at] = rounded<T>((static_cast<double>(from[at]) - mean[group]) / (std::sqrt(variance[group]) + 1e-9));
    });
  });
}

TENON_OP("MeanVarianceNormalization", 1, 1, 1, 1, infer, evaluate, {attr::integers("axes")});

}  // namespace
}  // namespace tenon::ops::mean_variance_normalization
