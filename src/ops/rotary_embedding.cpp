// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding.h"

#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  if (x && x->size() != 4 && (x->size() != 3 || ctx.node().integer("num_heads", 0) < 1))
    ctx.fail("the input is " + ir::str(*x), "it has 4 axes, or 3 where num_heads is given");
  infer_same(ctx);
}

void evaluate(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Rotary rotary = rotary_of(ctx.node(), x.dims());
  if (rotary.half < 0) ctx.fail("heads and the numbers that are turned do not fit an input " + x.dims().str());
  const std::vector<double> cosines = reals(ctx, ctx.input(1)), sines = reals(ctx, ctx.input(2));
  const int64_t places = rotary.batch * rotary.sequence, half = rotary.half;
  const auto all = static_cast<int64_t>(cosines.size()), cached = half ? all / half : places;
  if (sines.size() != cosines.size() || (half ? all % half : all) != 0)
    ctx.fail("sines and cosines do not fit " + std::to_string(half) + " pairs");
  std::vector<int64_t> positions;
  if (ctx.has(3)) positions = ctx.integers(3);
  else
    for (int64_t at = 0; at < places; ++at) positions.push_back(at);
  if (static_cast<int64_t>(positions.size()) != places) ctx.fail("there is not one position for each place");
  for (const int64_t position : positions)
    if (position < 0 || position >= cached) ctx.fail("position " + std::to_string(position) + " has no sines");
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    T* const to = ctx.output(0, x.dtype(), x.dims()).template data<T>();
    for (int64_t row = 0; row < rotary.rows(); ++row) {
      const T* from = x.data<T>() + rotary.begin(row);
      T* const y = to + rotary.begin(row);
      const int64_t entry = positions[static_cast<size_t>(row / rotary.heads)] * half;
      for (int64_t at = 0; at < half; ++at) {
        const int64_t first = rotary.interleaved ? 2 * at : at, second = rotary.interleaved ? first + 1 : at + half;
        const double a = static_cast<double>(from[first]), b = static_cast<double>(from[second]);
        const double c = cosines[static_cast<size_t>(entry + at)], s = sines[static_cast<size_t>(entry + at)];
        y[first] = rounded<T>(c * a - s * b), y[second] = rounded<T>(s * a + c * b);
      }
      for (int64_t at = 2 * half; at < rotary.size; ++at) y[at] = from[at];
    }
  });
}

TENON_OP("RotaryEmbedding", 3, 4, 1, 1, infer, evaluate,
         {attr::flag("interleaved"), attr::integer("num_heads").at_least(0),
          attr::integer("rotary_embedding_dim").at_least(0)},
         Trait::same_type | Trait::same_rank | Trait::half);

}  // namespace
}  // namespace tenon::ops
