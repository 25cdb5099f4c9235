// SPDX-License-Identifier: Apache-2.0
#include "ops/rotary_embedding.h"

#include <algorithm>

#include "base/checked.h"
#include "base/counted.h"
#include "ops/floats.h"
#include "ops/inference.h"

namespace tenon::ops::rotary_embedding {
namespace {

/// One position for each place, if any, and as many cosines as sines, of which each place has its own without them.
void check_sizes(const Inference& ctx) {
  const auto dims = fixed_dims(ctx.shape(0));
  if (!dims) return;
  const Rotary rotary = rotary_of(ctx.node(), *dims);
  if (rotary.half < 0) ctx.fail("heads and the numbers that are turned do not fit an input " + dims->str());
  const int64_t places = checked_mul(rotary.batch, rotary.sequence, "number of places");
  want_elements(ctx, 3, places, "the operand of positions");
  for (const size_t cache : {1, 2})
    if (const ir::Shape* shape = ctx.shape(cache); shape && !shape->empty() && differ(shape->back(), rotary.half))
      ctx.fail("the last axis of a cache " + ir::str(*shape) + " is not " + std::to_string(rotary.half) +
               ", half of what is turned");
  const auto cosines = known_elements(ctx, 1), sines = known_elements(ctx, 2);
  if (!cosines || !sines) return;
  if (*cosines != *sines || (rotary.half ? *cosines % rotary.half : *cosines) != 0)
    ctx.fail("sines and cosines do not fit " + counted(rotary.half, "pair"));
  const int64_t least = ctx.has(3) ? std::min<int64_t>(places, 1) : places;
  if (rotary.half > 0 && *cosines / rotary.half < least)
    ctx.fail("the cosines are for " + counted(*cosines / rotary.half, "position") + ", at least " +
             counted(least, "position") + " needed");
}

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  if (x && x->size() != 4 && (x->size() != 3 || ctx.node().integer("num_heads", 0) < 1))
    ctx.fail("the input is " + ir::str(*x), "it has 4 axes, or 3 where num_heads is given");
  for (const size_t input : {0, 1, 2}) want_floats(ctx, input, input == 0 ? "the input" : "a cache");
  want_integers(ctx, 3, "positions");
  check_sizes(ctx);
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
    ctx.fail("sines and cosines do not fit " + counted(half, "pair"));
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
}  // namespace tenon::ops::rotary_embedding
