// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops::inverse {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* shape = ctx.shape(0);
  want_floats(ctx, 0, "the input");
  if (shape && (shape->size() < 2 || differ(shape->back(), (*shape)[shape->size() - 2])))
    ctx.fail("the input " + ir::str(*shape) + " holds no square matrices");
  infer_same(ctx);
}

/// By Gauss-Jordan elimination with the largest pivot of each column. What has no inverse gives infinite numbers.
std::vector<double> inverse(std::vector<double> m, int64_t n) {
  std::vector<double> result(m.size(), 0);
  for (int64_t row = 0; row < n; ++row) result[row * n + row] = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row)
      if (std::fabs(m[row * n + column]) > std::fabs(m[pivot * n + column])) pivot = row;
    for (auto* matrix : {&m, &result})
      if (pivot != column)
        std::swap_ranges(matrix->begin() + pivot * n, matrix->begin() + pivot * n + n, matrix->begin() + column * n);
    const double scale = 1 / m[column * n + column];
    for (auto* matrix : {&m, &result})
      for (int64_t at = 0; at < n; ++at) (*matrix)[column * n + at] *= scale;
    for (int64_t row = 0; row < n; ++row) {
      const double factor = m[row * n + column];
      if (row == column || factor == 0) continue;
      for (auto* matrix : {&m, &result})
        for (int64_t at = 0; at < n; ++at) (*matrix)[row * n + at] -= factor * (*matrix)[column * n + at];
    }
  }
  return result;
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const size_t rank = x.dims().rank();
  if (rank < 2 || x.dims()[rank - 1] != x.dims()[rank - 2])
    ctx.fail("the input " + x.dims().str() + " holds no square matrices");
  const int64_t n = x.dims().back(), each = n * n;
  const std::vector<double> all = reals(ctx, x);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    for (int64_t at = 0; each && at < x.elements(); at += each)
      for (const double number : inverse({all.begin() + at, all.begin() + at + each}, n)) *to++ = rounded<T>(number);
  });
}

TENON_OP("com.microsoft:Inverse", 1, 1, 1, 1, infer, evaluate, {}, Trait::same_type | Trait::same_rank);

}  // namespace
}  // namespace tenon::ops::inverse
