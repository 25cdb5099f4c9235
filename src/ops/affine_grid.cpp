// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops::affine_grid {
namespace {

void infer(Inference& ctx) {
  const auto size = ctx.content(1);
  const auto rank = known_length(ctx, 1);
  const auto entries = size ? std::optional(static_cast<int64_t>(size->size())) : rank;
  if (entries && *entries != 4 && *entries != 5)
    ctx.fail("the size has " + counted(*entries, "entry") + "; 4 or 5 are supported");
  if (!size)
    return ctx.set(0, ctx.dtype(0),
                   rank ? std::optional(unknown_shape(ctx, static_cast<size_t>(*rank))) : std::nullopt);
  ir::Shape grid{(*size)[0]};
  grid.insert(grid.end(), size->begin() + 2, size->end());
  grid.push_back(static_cast<int64_t>(size->size()) - 2);
  ctx.set(0, ctx.dtype(0), std::move(grid));
}

/// Maps the centres of an output image's elements, in [-1, 1] with x first, by one affine matrix for each image of
/// the batch.
void evaluate(Evaluation& ctx) {
  const Tensor& theta = ctx.input(0);
  const auto size = ctx.integers(1);
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  if (rank != 2 && rank != 3) ctx.fail("the size has " + counted(size.size(), "entry") + "; 4 or 5 are supported");
  if (!(theta.dims() == Dims{size[0], rank, rank + 1})) ctx.fail("theta is " + theta.dims().str());
  const bool corners = ctx.node().integer("align_corners", 0);
  Dims dims{size[0]};
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (size[2 + axis] < 0) ctx.fail("a size is negative");
    dims.push_back(size[2 + axis]);
  }
  dims.push_back(rank);
  const std::vector<double> matrix = reals(ctx, theta);
  const auto centre = [&](int64_t at, int64_t count) {
    if (corners) return count == 1 ? 0.0 : 2 * static_cast<double>(at) / static_cast<double>(count - 1) - 1;
    return (2 * static_cast<double>(at) + 1) / static_cast<double>(count) - 1;
  };
  dispatch<Floats>(ctx, theta.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, theta.dtype(), dims).template data<T>();
    const int64_t points = dims.elements() / std::max<int64_t>(1, rank * size[0]);
    for (int64_t n = 0; n < size[0]; ++n)
      for (int64_t point = 0; point < points; ++point) {
        std::array<double, 3> position{};
        int64_t rest = point;
        for (int64_t axis = rank; axis-- > 0; rest /= size[2 + axis])
          position[rank - 1 - axis] = centre(rest % size[2 + axis], size[2 + axis]);
        for (int64_t row = 0; row < rank; ++row) {
          const double* factors = matrix.data() + (n * rank + row) * (rank + 1);
          double sum = factors[rank];
          for (int64_t column = 0; column < rank; ++column) sum += factors[column] * position[column];
          *to++ = rounded<T>(sum);
        }
      }
  });
}

TENON_OP("AffineGrid", 2, 2, 1, 1, infer, evaluate, {attr::flag("align_corners")});

}  // namespace
}  // namespace tenon::ops::affine_grid
