// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops::det {
namespace {

void infer(Inference& ctx) {
  auto shape = known_shape(ctx, 0);
  if (shape) {
    if (shape->size() < 2) ctx.fail("the input is no matrix");
    shape->resize(shape->size() - 2);
  }
  ctx.set(0, ctx.dtype(0), std::move(shape));
}

/// By Gaussian elimination with the largest pivot of each column.
double determinant(std::vector<double> m, int64_t n) {
  double product = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::fabs(m[row * n + column]) > std::fabs(m[pivot * n + column])) pivot = row;
    const double value = m[pivot * n + column];
    if (value == 0) return 0;
    if (pivot != column) {
      std::swap_ranges(m.begin() + pivot * n, m.begin() + pivot * n + n, m.begin() + column * n);
      product = -product;
    }
    product *= value;
    for (int64_t row = column + 1; row < n; ++row) {
      const double factor = m[row * n + column] / value;
      for (int64_t at = column; at < n; ++at) m[row * n + at] -= factor * m[column * n + at];
    }
  }
  return product;
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t rank = x.dims().rank();
  if (rank < 2 || x.dims()[rank - 1] != x.dims()[rank - 2])
    ctx.fail("the input " + x.dims().str() + " holds no square matrices");
  const int64_t n = x.dims().back();
  Dims dims = x.dims();
  dims.erase(rank - 1), dims.erase(rank - 2);
  const std::vector<double> all = reals(ctx, x);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), dims).template data<T>();
    const int64_t count = dims.elements();
    for (int64_t at = 0; at < count; ++at)
      to[at] = rounded<T>(determinant({all.begin() + at * n * n, all.begin() + (at + 1) * n * n}, n));
  });
}

TENON_OP("Det", 1, 1, 1, 1, infer, evaluate);

}  // namespace
}  // namespace tenon::ops::det
