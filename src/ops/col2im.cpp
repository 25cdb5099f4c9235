// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/window.h"

namespace tenon::ops::col2im {
namespace {

using List = std::vector<int64_t>;

/// Blocks of an image as columns: input (N, C * block elements, number of blocks), output (N, C, image…).
void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  const auto image = ctx.content(1);
  const auto block = ctx.integers(2);
  if (!x || !image || !block) return ctx.set(0, ctx.dtype(0), std::nullopt);
  int64_t elements = 1;
  for (int64_t size : *block)
    if (size < 1 || __builtin_mul_overflow(elements, size, &elements))
      ctx.fail("a block size is " + std::to_string(size));
  if (x->size() != 3) ctx.fail("the input has rank " + std::to_string(x->size()) + ", not 3");
  ir::Shape y{(*x)[0], (*x)[1].is_constant() ? (*x)[1].floor_div(elements) : ctx.unknown()};
  y.insert(y.end(), image->begin(), image->end());
  ctx.set(0, ctx.dtype(0), std::move(y));
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const List image = ctx.integers(1), block = ctx.integers(2);
  const size_t rank = image.size();
  if (rank < 1 || rank + 2 > Dims::max_rank || block.size() != rank || x.dims().rank() != 3)
    ctx.fail("image, block and input do not fit");
  const List strides = window_list(ctx, "strides", rank, 1, 1), dilations = window_list(ctx, "dilations", rank, 1, 1);
  const List pads = window_list(ctx, "pads", rank * 2, 0, 0);
  Dims block_dims, steps_dims, y_dims{x.dims()[0], 0};
  for (size_t axis = 0; axis < rank; ++axis) {
    if (image[axis] < 0 || image[axis] >= int64_t{1} << 31 || block[axis] < 1 || block[axis] >= int64_t{1} << 31)
      ctx.fail("a size is out of range");
    const int64_t room = image[axis] + pads[axis] + pads[axis + rank] - dilations[axis] * (block[axis] - 1) - 1;
    block_dims.push_back(block[axis]);
    steps_dims.push_back(room < 0 ? 0 : room / strides[axis] + 1);
    y_dims.push_back(image[axis]);
  }
  const int64_t taps = block_dims.elements(), steps = steps_dims.elements();
  if (x.dims()[1] % taps || x.dims()[2] != steps)
    ctx.fail("the input " + x.dims().str() + " does not hold " + counted(steps, "block") + " of " +
             std::to_string(taps));
  y_dims[1] = x.dims()[1] / taps;
  Dims plane = y_dims;
  plane.erase(0), plane.erase(0);
  const int64_t planes = y_dims[0] * y_dims[1], size = plane.elements();
  const Strides at_plane = strides_of(plane), at_block = strides_of(block_dims), at_step = strides_of(steps_dims);
  const std::vector<double> from = reals(ctx, x);
  std::vector<double> sums(static_cast<size_t>(planes * size));
  for (int64_t tap = 0; tap < taps; ++tap)
    for (int64_t step = 0; step < steps; ++step) {
      int64_t offset = 0;
      bool inside = true;
      for (size_t axis = 0; axis < rank && inside; ++axis) {
        const int64_t at = step / at_step[axis] % steps_dims[axis] * strides[axis] +
                           tap / at_block[axis] % block[axis] * dilations[axis] - pads[axis];
        inside = at >= 0 && at < image[axis];
        offset += at * at_plane[axis];
      }
      for (int64_t n = 0; inside && n < planes; ++n) sums[n * size + offset] += from[(n * taps + tap) * steps + step];
    }
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* to = ctx.output(0, x.dtype(), y_dims).template data<T>();
    for (size_t at = 0; at < sums.size(); ++at) to[at] = rounded<T>(sums[at]);
  });
}

TENON_OP("Col2Im", 3, 3, 1, 1, infer, evaluate,
         {attr::integers("dilations").at_least(1), attr::integers("pads").at_least(0),
          attr::integers("strides").at_least(1)},
         Trait::half | Trait::any_result);

}  // namespace
}  // namespace tenon::ops::col2im
