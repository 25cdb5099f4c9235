// SPDX-License-Identifier: Apache-2.0
#include "base/counted.h"
#include "ops/quantize.h"

namespace tenon::ops::quantized_matmul {
namespace {

std::optional<ir::Shape> product_shape(Inference& ctx, size_t a_at, size_t b_at) {
  const ir::Shape *a = ctx.shape(a_at), *b = ctx.shape(b_at);
  if (!a || !b) return std::nullopt;
  if (a->empty() || b->empty()) ctx.fail("a factor is a scalar");
  const ir::Dim& inner = b->size() == 1 ? (*b)[0] : (*b)[b->size() - 2];
  if (differ(a->back(), inner)) ctx.fail("factors " + ir::str(*a) + " and " + ir::str(*b) + " do not fit");
  const auto batch = [](const ir::Shape& shape) {
    return ir::Shape(shape.begin(), shape.end() - std::min<size_t>(2, shape.size()));
  };
  ir::Shape out = broadcast(ctx, batch(*a), batch(*b));
  if (a->size() > 1) out.push_back((*a)[a->size() - 2]);
  if (b->size() > 1) out.push_back(b->back());
  return out;
}

/// Zero points or scales of a factor: one number, one per line (row of a, column of b), or one per line of each matrix.
template <class T>
struct PerLine {
  std::vector<T> list;
  int64_t lines;
  T at(int64_t matrix, int64_t line) const {
    if (list.size() == 1) return list[0];
    return list[static_cast<size_t>(static_cast<int64_t>(list.size()) == lines ? line : matrix * lines + line)];
  }
};

template <class T>
PerLine<T> per_line(Evaluation& ctx, std::vector<T> list, int64_t matrices, int64_t lines) {
  const auto size = static_cast<int64_t>(list.size());
  if (size != 1 && size != lines && size != matrices * lines)
    ctx.fail("a scale or zero point has " + counted(size, "entry") + " for " + counted(lines, "line"));
  return {std::move(list), lines};
}

struct Product {
  Dims dims;                         // of the result
  int64_t m = 1, n = 1;              // of one matrix of it
  std::vector<int64_t> a_matrix, b_matrix;  // for each matrix of the result, which of a and b it comes from
  int64_t a_matrices = 1, b_matrices = 1;
  std::vector<int64_t> sums;
};

Product multiply(Evaluation& ctx, size_t a_at, size_t a_zero_at, size_t b_at, size_t b_zero_at) {
  Dims a = ctx.input(a_at).dims(), b = ctx.input(b_at).dims();
  if (a.rank() == 0 || b.rank() == 0) ctx.fail("a factor is a scalar");
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.insert(0, 1);
  if (column) b.push_back(1);
  const int64_t m = a[a.rank() - 2], k = a.back(), n = b.back();
  if (b[b.rank() - 2] != k) ctx.fail("factors " + a.str() + " and " + b.str() + " do not fit");
  const auto drop_matrix = [](Dims dims) { dims.erase(dims.rank() - 1), dims.erase(dims.rank() - 1); return dims; };
  const Dims a_batch = drop_matrix(a), b_batch = drop_matrix(b), batch = broadcast(ctx, a_batch, b_batch);
  Product product;
  product.m = m;
  product.n = n;
  product.a_matrices = a_batch.elements();
  product.b_matrices = b_batch.elements();
  walk<2>(batch, {broadcast_strides(a_batch, batch), broadcast_strides(b_batch, batch)},
          [&](const auto& at, int64_t run, const auto& step) {
            for (int64_t i = 0; i < run; ++i) {
              product.a_matrix.push_back(at[0] + i * step[0]);
              product.b_matrix.push_back(at[1] + i * step[1]);
            }
          });
  product.dims = batch;
  if (!row) product.dims.push_back(m);
  if (!column) product.dims.push_back(n);
  const std::vector<int32_t> left = whole_numbers(ctx, ctx.input(a_at)), right = whole_numbers(ctx, ctx.input(b_at));
  const auto zeros = [&](size_t at) {
    return ctx.has(at) ? whole_numbers(ctx, ctx.input(at)) : std::vector<int32_t>(1);
  };
  const auto a_zero = per_line(ctx, zeros(a_zero_at), product.a_matrices, m);
  const auto b_zero = per_line(ctx, zeros(b_zero_at), product.b_matrices, n);
  product.sums.resize(static_cast<size_t>(product.dims.elements()));
  for (size_t matrix = 0; matrix < product.a_matrix.size() && !product.sums.empty(); ++matrix) {
    const int64_t a_from = product.a_matrix[matrix], b_from = product.b_matrix[matrix];
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l) {
        const int64_t factor = left[(a_from * m + i) * k + l] - a_zero.at(a_from, i);
        for (int64_t j = 0; j < n; ++j)
          product.sums[(matrix * m + i) * n + j] += factor * (right[(b_from * k + l) * n + j] - b_zero.at(b_from, j));
      }
  }
  return product;
}

void infer_integer(Inference& ctx) { ctx.set(0, DType::i32, product_shape(ctx, 0, 1)); }

void evaluate_integer(Evaluation& ctx) {
  const Product product = multiply(ctx, 0, 2, 1, 3);
  Tensor& y = ctx.output(0, DType::i32, product.dims);
  for (size_t i = 0; i < product.sums.size(); ++i) y.data<int32_t>()[i] = static_cast<int32_t>(product.sums[i]);
}

void infer_qlinear(Inference& ctx) { ctx.set(0, ctx.dtype(7), product_shape(ctx, 0, 3)); }

/// Inputs a, its scale and zero point, b, its scale and zero point, and those of y.
void evaluate_qlinear(Evaluation& ctx) {
  const Product product = multiply(ctx, 0, 2, 3, 5);
  const auto a_scale = per_line(ctx, reals(ctx, ctx.input(1)), product.a_matrices, product.m);
  const auto b_scale = per_line(ctx, reals(ctx, ctx.input(4)), product.b_matrices, product.n);
  const std::vector<double> y_scale = reals(ctx, ctx.input(6));
  const std::vector<int32_t> y_zero = whole_numbers(ctx, ctx.input(7));
  const auto matrices = static_cast<int64_t>(product.a_matrix.size());
  const auto y_scales = per_line(ctx, y_scale, matrices, product.m);
  const auto y_zeros = per_line(ctx, y_zero, matrices, product.m);
  IntegerRange range{};
  const DType type = ctx.input(7).dtype();
  if (!quantised_range(type, range)) ctx.fail("the output's zero point is " + std::string(name(type)));
  Tensor& y = ctx.output(0, type, product.dims);
  dispatch_quantised(ctx, type, [&]<class Q>(Type<Q>) {
    for (int64_t at = 0; at < static_cast<int64_t>(product.sums.size()); ++at) {
      const int64_t matrix = at / product.n / product.m, i = at / product.n % product.m, j = at % product.n;
      const double factor =
          a_scale.at(product.a_matrix[matrix], i) * b_scale.at(product.b_matrix[matrix], j) / y_scales.at(matrix, i);
      y.data<Q>()[at] =
          static_cast<Q>(quantised(static_cast<double>(product.sums[at]) * factor, y_zeros.at(matrix, i), range));
    }
  });
}

TENON_OP("MatMulInteger", 2, 4, 1, 1, infer_integer, evaluate_integer, {}, Trait::product | Trait::quantised);
TENON_OP("QLinearMatMul", 8, 8, 1, 1, infer_qlinear, evaluate_qlinear, {}, Trait::product | Trait::quantised);

}  // namespace
}  // namespace tenon::ops::quantized_matmul
