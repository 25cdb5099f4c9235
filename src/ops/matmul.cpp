// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "ops/dispatch.h"
#include "ops/epilogue.h"
#include "ops/floats.h"
#include "ops/inference.h"
#include "ops/matrix.h"
#include "ops/window.h"

namespace tenon::ops::matmul {
namespace {

void infer(Inference& ctx) {
  if (ctx.constant(1)) want_weight_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  else want_same_dtype(ctx, ctx.dtype(0), ctx.dtype(1));
  const DType type = output_type(ctx, ctx.dtype(0));
  const bool narrow = ctx.dtype(0) == DType::f16 || ctx.dtype(0) == DType::bf16;
  if (type != ctx.dtype(0) && !(type == DType::f32 && narrow)) ctx.fail("output_dtype is not f32 of 16-bit floats");
  const ir::Shape *left = ctx.shape(0), *right = ctx.shape(1);
  if (!left || !right) return ctx.set(0, type, std::nullopt);
  if (left->empty() || right->empty()) ctx.fail("an operand is a scalar");
  ir::Shape a = *left, b = *right;
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  const ir::Dim &inner = a.back(), &other = b[b.size() - 2];
  if (inner.is_constant() && other.is_constant() && !(inner == other))
    ctx.fail("inner sizes " + inner.str() + " and " + other.str() + " of " + ir::str(*left) + " and " +
             ir::str(*right) + " differ");
  ir::Shape to = broadcast(ctx, {a.begin(), a.end() - 2}, {b.begin(), b.end() - 2});
  if (!row) to.push_back(a[a.size() - 2]);
  if (!column) to.push_back(b.back());
  const ir::Shape* bias = ctx.shape(2);
  const bool by_row = bias && bias->size() == 2 && bias->back() == ir::Dim(1) && to.size() >= 2;
  if (bias && (to.empty() || differ(product(*bias), to[to.size() - (by_row ? 2 : 1)])))
    ctx.fail("the bias has sizes " + ir::str(*bias) + " where the output has " + ir::str(to));
  const Epilogue epilogue = read_epilogue(ctx);
  check_residual(ctx, epilogue, type, to);
  check_slopes(ctx, epilogue, column ? ir::Dim(1) : to.back());
  ctx.set(0, type, std::move(to));
}

/// Input 2, of the length of the last axis or, as a column, of the one before, and any float, and the epilogue with its
/// residual: what passes fuse.
template <class T>
void finish(Evaluation& ctx, T* to, const Dims& dims) {
  const Epilogue epilogue = read_epilogue(ctx);
  const bool residual = epilogue.residual != Residual::none;
  if (!ctx.has(2) && epilogue.empty()) return;
  const bool by_row =
      ctx.has(2) && ctx.input(2).dims().rank() == 2 && ctx.input(2).dims().back() == 1 && dims.rank() >= 2;
  if (ctx.has(2) && (dims.rank() == 0 || ctx.input(2).elements() != dims[dims.rank() - (by_row ? 2 : 1)]))
    ctx.fail("the bias has sizes " + ctx.input(2).dims().str() + " where the output has " + dims.str());
  const DType type = output_type(ctx, ctx.input(0).dtype());
  if (residual && (!ctx.has(3) || ctx.input(3).dtype() != type || !(ctx.input(3).dims() == dims)))
    ctx.fail("the residual is not like the output");
  const std::vector<double> bias = ctx.has(2) ? reals(ctx, ctx.input(2)) : std::vector<double>();
  for (int64_t at = 0, count = dims.elements(); at < count; ++at) {
    double sum = static_cast<double>(static_cast<Wide<T>>(to[at]));
    const double other = residual ? static_cast<double>(static_cast<Wide<T>>(ctx.input(3).template data<T>()[at])) : 0;
    if (!bias.empty()) {
      const int64_t place = by_row ? at / dims.back() % dims[dims.rank() - 2] : at % dims.back();
      sum += bias[static_cast<size_t>(place)];
    }
    apply(epilogue, sum, other, epilogue.slopes.empty() ? 0 : at % dims.back());
    to[at] = static_cast<T>(static_cast<Wide<T>>(sum));
  }
}

void evaluate(Evaluation& ctx) {
  const Tensor& left = ctx.input(0);
  want_weight_dtype(ctx, left.dtype(), ctx.input(1).dtype());
  const Tensor right = left.dtype() == DType::f32 ? as_f32(ctx.input(1)) : ctx.input(1);
  Dims a = left.dims(), b = right.dims();
  if (a.rank() == 0 || b.rank() == 0) ctx.fail("an operand is a scalar");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.insert(0, 1);
  if (column) b.push_back(1);
  const int64_t m = a[a.rank() - 2], k = a.back(), n = b.back();
  if (b[b.rank() - 2] != k) ctx.fail("inner sizes of " + left.dims().str() + " and " + right.dims().str() + " differ");
  const auto drop_matrix = [](Dims dims) {
    dims.erase(dims.rank() - 1);
    dims.erase(dims.rank() - 1);
    return dims;
  };
  const Dims a_batch = drop_matrix(a), b_batch = drop_matrix(b), batch = broadcast(ctx, a_batch, b_batch);
  Dims dims = batch;
  if (!row) dims.push_back(m);
  if (!column) dims.push_back(n);
  const DType type = output_type(ctx, left.dtype());
  const auto compute = [&]<class T, class To>(Type<T>, Type<To>) {
    To* to = ctx.output(0, type, dims).template data<To>();
    if (dims.elements() == 0) return;
    walk<3>(batch, {broadcast_strides(a_batch, batch), broadcast_strides(b_batch, batch), strides_of(batch)},
            [&](const auto& at, int64_t count, const auto& step) {
              for (int64_t i = 0; i < count; ++i)
                multiply(left.data<T>() + (at[0] + i * step[0]) * m * k, false,
                         right.data<T>() + (at[1] + i * step[1]) * k * n, false, to + (at[2] + i) * m * n, m, n, k);
            });
    finish(ctx, to, dims);
  };
  dispatch<Numbers>(ctx, left.dtype(), [&]<class T>(Type<T> each) {
    constexpr bool is_narrow = !std::is_integral_v<Wide<T>> && !std::is_same_v<Wide<T>, T>;
    if (is_narrow && type == DType::f32) compute(each, Type<float>());
    else if (type == left.dtype()) compute(each, each);
    else ctx.fail("output_dtype is not f32 of 16-bit floats");
  });
}

TENON_OP("MatMul", 2, 4, 1, 1, infer, evaluate,
         epilogue_attributes() + AttributeDefs{attr::element_type("output_dtype").internal()},
         Trait::product | Trait::integer_form | Trait::same_type | Trait::all_data | Traits::standard_inputs(2));

}  // namespace
}  // namespace tenon::ops::matmul
