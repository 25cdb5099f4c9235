// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "ops/epilogue.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/matrix.h"
#include "ops/window.h"

namespace tenon::ops::dot_attention {
namespace {

/// Internal: softmax(Q K^T scale + mask) V for each of a batch. Inputs: Q [..., M, D], K [..., N, D], V [..., N, E]
/// with the same leading axes, and optionally a mask that broadcasts to [..., M, N]; one of four axes may also have a
/// part of the first, of which it repeats. The last of the leading axes, of heads, may be shorter in K and V:
/// neighbouring heads of Q share one then. Attributes: `scale` (1); `nan_to_zero` (0) makes weights that are not
/// numbers zeros; the activation of an epilogue. The result [..., M, E] is of Q's type.

/// Whether heads of these numbers go together.
bool shares(const ir::Dim& q, const ir::Dim& k) {
  if (!q.is_constant() || !k.is_constant()) return !differ(q, k);
  return k.value() > 0 ? q.value() % k.value() == 0 : q.value() == k.value();
}

/// Whether a mask has so many windows along the first of its four axes that those of the scores are a multiple.
bool repeats(const ir::Shape& mask, const ir::Shape& scores) {
  if (mask.size() != 4 || scores.size() != 4) return false;
  if (!mask[0].is_constant() || mask[0].value() < 1) return false;
  return scores[0].is_constant() ? scores[0].value() % mask[0].value() == 0 : scores[0].exact_div(mask[0]).has_value();
}

void infer(Inference& ctx) {
  read_epilogue(ctx);
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(2));
  const ir::Shape *q = ctx.shape(0), *k = ctx.shape(1), *v = ctx.shape(2);
  if (!q || !k || !v) return ctx.set(0, ctx.dtype(0), std::nullopt);
  if (q->size() < 2 || k->size() != q->size() || v->size() != q->size()) ctx.fail("operands differ in rank");
  for (size_t axis = 0; axis + 2 < q->size(); ++axis) {
    const bool heads = axis + 3 == q->size();
    if (heads ? !shares((*q)[axis], (*k)[axis]) : differ((*q)[axis], (*k)[axis]))
      ctx.fail("operands differ in their batch");
    if (differ((*k)[axis], (*v)[axis])) ctx.fail("operands differ in their batch");
  }
  if (differ(q->back(), k->back()) || differ((*k)[k->size() - 2], (*v)[v->size() - 2]))
    ctx.fail("inner sizes of " + ir::str(*q) + ", " + ir::str(*k) + " and " + ir::str(*v) + " differ");
  if (const ir::Shape* mask = ctx.shape(3)) {
    ir::Shape scores = *q;
    scores.back() = (*k)[k->size() - 2];
    bool fits = mask->size() <= scores.size();
    for (size_t axis = 0; fits && axis < mask->size(); ++axis) {
      const ir::Dim& size = (*mask)[mask->size() - 1 - axis];
      fits = size == ir::Dim(1) || !differ(size, scores[scores.size() - 1 - axis]) ||
             (axis == 3 && repeats(*mask, scores));
    }
    if (!fits) ctx.fail("the mask is " + ir::str(*mask) + " for weights of " + ir::str(scores));
  }
  ir::Shape to = *q;
  to.back() = v->back();
  ctx.set(0, ctx.dtype(0), std::move(to));
}

/// Softmax of a row, in place.
void normalise(std::vector<float>& row, bool nan_to_zero) {
  float top = -std::numeric_limits<float>::infinity();
  for (float x : row) top = std::max(top, x);
  double sum = 0;
  for (float& x : row) sum += x = std::exp(x - top);
  for (float& x : row) {
    x = static_cast<float>(x / sum);
    if (nan_to_zero && std::isnan(x)) x = 0;
  }
}

/// A mask as it is for all scores; empty where it does not fit.
std::vector<float> whole_mask(Evaluation& ctx, const Tensor& given, const Dims& scores) {
  Dims once = scores;
  if (given.dims().rank() == 4 && scores.rank() == 4 && given.dims()[0] > 1 && scores[0] % given.dims()[0] == 0)
    once[0] = given.dims()[0];
  if (given.dtype() != DType::f32 || !(broadcast(ctx, given.dims(), once) == once)) ctx.fail("the mask does not fit");
  std::vector<float> mask(static_cast<size_t>(scores.elements()));
  walk<2>(once, {broadcast_strides(given.dims(), once), strides_of(once)},
          [&](const auto& at, int64_t count, const auto& step) {
            for (int64_t i = 0; i < count; ++i) mask[at[1] + i * step[1]] = given.data<float>()[at[0] + i * step[0]];
          });
  const auto each = static_cast<size_t>(once.elements());
  for (size_t at = each; each > 0 && at < mask.size(); ++at) mask[at] = mask[at - each];
  return mask;
}

void evaluate(Evaluation& ctx) {
  const Tensor q = as_f32(ctx.input(0)), k = as_f32(ctx.input(1)), v = as_f32(ctx.input(2));
  if (q.dtype() != DType::f32) ctx.fail("takes f32, f16 and bf16");
  const size_t rank = q.dims().rank();
  if (rank < 2 || k.dims().rank() != rank || v.dims().rank() != rank) ctx.fail("operands differ in rank");
  const int64_t m = q.dims()[rank - 2], d = q.dims().back(), n = k.dims()[rank - 2], e = v.dims().back();
  Dims scores = q.dims(), to = q.dims(), wanted_k = q.dims(), wanted_v = q.dims();
  scores[rank - 1] = n, to[rank - 1] = e;
  wanted_k[rank - 2] = n;
  wanted_v[rank - 2] = n, wanted_v[rank - 1] = e;
  int64_t share = 1;
  if (rank > 2 && k.dims()[rank - 3] > 0 && q.dims()[rank - 3] % k.dims()[rank - 3] == 0) {
    share = q.dims()[rank - 3] / k.dims()[rank - 3];
    wanted_k[rank - 3] = wanted_v[rank - 3] = k.dims()[rank - 3];
  }
  if (!(k.dims() == wanted_k) || !(v.dims() == wanted_v)) ctx.fail("sizes of operands differ");
  std::vector<float> mask;
  if (ctx.has(3)) mask = whole_mask(ctx, as_f32(ctx.input(3)), scores);
  const float scale = ctx.node().real("scale", 1);
  const bool nan_to_zero = ctx.node().integer("nan_to_zero", 0) != 0;
  const Epilogue epilogue = read_epilogue(ctx);
  Tensor result(DType::f32, to);
  std::vector<float> row(static_cast<size_t>(n));
  const int64_t rows = n && d ? scores.elements() / n : 0;
  for (int64_t at = 0; at < rows; ++at) {
    const int64_t batch = at / m / std::max<int64_t>(1, share);
    multiply(q.data<float>() + at * d, false, k.data<float>() + batch * n * d, true, row.data(), 1, n, d);
    for (int64_t j = 0; j < n; ++j) row[j] = row[j] * scale + (mask.empty() ? 0 : mask[at * n + j]);
    normalise(row, nan_to_zero);
    multiply(row.data(), false, v.data<float>() + batch * n * e, false, result.data<float>() + at * e, 1, e, n);
    apply<float>(epilogue, result.data<float>() + at * e, nullptr, e, 1, 1);
  }
  deliver(ctx, 0, ctx.input(0).dtype(), result);
}

TENON_OP("tenon:DotAttention", 3, 4, 1, 1, infer, evaluate,
         activation_attributes() + AttributeDefs{attr::real("scale").internal(), attr::flag("nan_to_zero").internal()},
         Trait::all_data | Trait::any_order);

}  // namespace
}  // namespace tenon::ops::dot_attention
