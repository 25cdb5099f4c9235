// SPDX-License-Identifier: Apache-2.0
#include "ops/sequence.h"

/// An optional value is the value itself, or an empty tensor.
namespace tenon::ops::optional {
namespace {

void infer_same(Inference& ctx) {
  const DType dtype = ctx.dtype(0);
  if (dtype == DType::sequence) return set_sequence(ctx, 0, item_type(ctx, 0));
  const ir::Shape* shape = ctx.shape(0);
  ctx.set(0, dtype, shape ? std::optional(*shape) : std::nullopt);
}

void evaluate_optional(Evaluation& ctx) {
  if (ctx.has(0)) ctx.set(0, ctx.input(0));
}

void evaluate_get(Evaluation& ctx) {
  if (!ctx.has(0)) ctx.fail("the optional value is empty");
  ctx.set(0, ctx.input(0));
}

void infer_has(Inference& ctx) { ctx.set(0, DType::boolean, ir::Shape{}); }
void evaluate_has(Evaluation& ctx) { *ctx.output(0, DType::boolean, {}).data<uint8_t>() = ctx.has(0); }

TENON_OP("Optional", 0, 1, 1, 1, infer_same, evaluate_optional, {attr::text("type")});
TENON_OP("OptionalGetElement", 1, 1, 1, 1, infer_same, evaluate_get);
TENON_OP("OptionalHasElement", 0, 1, 1, 1, infer_has, evaluate_has);

}  // namespace
}  // namespace tenon::ops::optional
