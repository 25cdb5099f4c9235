// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ops/inference.h"
#include "ops/window.h"

namespace tenon::ops::tensor_scatter {
namespace {

void infer(Inference& ctx) {
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  want_integers(ctx, 2, "the operand of indices");
  infer_same(ctx);
  const ir::Shape* past = ctx.shape(0);
  if (!past) return;
  const size_t along = normal_axis(ctx, ctx.node().integer("axis", -2), past->size());
  if (along == 0) ctx.fail("its axis is that of the batch");
  if ((*past)[0].is_constant()) want_elements(ctx, 2, (*past)[0].value(), "the operand of indices");
  want_rank(ctx, 1, past->size(), "the update");
  const ir::Shape* update = ctx.shape(1);
  for (size_t axis = 0; update && axis < past->size(); ++axis) {
    const ir::Dim &has = (*update)[axis], &room = (*past)[axis];
    if (!has.is_constant() || !room.is_constant()) continue;
    if (axis == along ? has.value() > room.value() : has.value() != room.value())
      ctx.fail("the update " + ir::str(*update) + " does not fit into the cache " + ir::str(*past));
  }
}

/// The cache with the update in the place of what begins at an index of each of the batch, along the axis.
void evaluate(Evaluation& ctx) {
  const Tensor &past = ctx.input(0), &update = ctx.input(1);
  const Dims dims = past.dims();
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", -2), dims.rank()), bytes = size_of(past.dtype());
  if (axis == 0) ctx.fail("its axis is that of the batch");
  if (bytes == 0) ctx.fail("elements are no whole bytes");
  Dims wanted = dims;
  if (update.dims().rank() == dims.rank()) wanted[axis] = update.dims()[axis];
  if (!(update.dims() == wanted) || wanted[axis] > dims[axis] || update.dtype() != past.dtype())
    ctx.fail("the update " + update.dims().str() + " does not fit into the cache " + dims.str());
  const bool circular = ctx.node().text("mode", "linear") == "circular";
  std::vector<int64_t> first(static_cast<size_t>(dims[0]), 0);
  if (ctx.has(2)) first = ctx.integers(2);
  if (static_cast<int64_t>(first.size()) != dims[0]) ctx.fail("there is not one index for each of the batch");
  const int64_t most = dims[axis], count = wanted[axis];
  int64_t prefixes = 1, inner = 1;
  for (size_t at = 1; at < axis; ++at) prefixes *= dims[at];
  for (size_t at = axis + 1; at < dims.rank(); ++at) inner *= dims[at];
  for (const int64_t index : first)
    if (index < 0 || (!circular && index > most - count))
      ctx.fail("index " + std::to_string(index) + " leaves no room for " + std::to_string(count));
  Tensor& y = ctx.output(0, past.dtype(), dims);
  if (y.data() != past.data() && past.bytes()) std::memcpy(y.data(), past.data(), past.bytes());
  const size_t slice = static_cast<size_t>(inner) * bytes;
  auto* to = y.data<std::byte>();
  const auto* from = update.data<std::byte>();
  for (int64_t prefix = 0; prefix < dims[0] * prefixes; ++prefix)
    for (int64_t at = 0; at < count; ++at) {
      const int64_t place = (first[static_cast<size_t>(prefix / prefixes)] % std::max<int64_t>(most, 1) + at) % most;
      std::memcpy(to + static_cast<size_t>(prefix * most + place) * slice,
                  from + static_cast<size_t>(prefix * count + at) * slice, slice);
    }
}

TENON_OP("TensorScatter", 2, 3, 1, 1, infer, evaluate,
         {attr::integer("axis"), attr::text("mode").one_of({"linear", "circular"})},
         Trait::moves | Trait::same_type | Trait::same_rank);

}  // namespace
}  // namespace tenon::ops::tensor_scatter
