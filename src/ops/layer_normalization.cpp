// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/broadcast.h"
#include "ops/epilogue.h"
#include "ops/floats.h"
#include "ops/normalize.h"
#include "ops/window.h"

namespace tenon::ops::layer_normalization {
namespace {

DType stash_type(const ir::Node& node) { return static_cast<DType>(node.integer("stash_type", 1)); }

void infer_layer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  std::optional<ir::Shape> statistic;
  if (x) {
    const size_t axis = normal_axis(ctx, ctx.node().integer("axis", -1), x->size());
    statistic = *x;
    for (size_t at = axis; at < x->size(); ++at) (*statistic)[at] = 1;
    for (size_t input = 1; input < 3; ++input) {
      const ir::Shape* list = ctx.has(input) ? ctx.shape(input) : nullptr;
      if (!list) continue;
      if (!broadcasts_to(*list, *x))
        ctx.fail("input " + std::to_string(input) + " is " + ir::str(*list) + " for an input " + ir::str(*x));
    }
  }
  ctx.set(0, output_type(ctx, ctx.dtype(0)), x ? std::optional(*x) : std::nullopt);
  for (size_t output = 1; output < ctx.outputs(); ++output) ctx.set(output, stash_type(ctx.node()), statistic);
}

/// centred: LayerNormalization; otherwise RMSNormalization, which neither subtracts the mean nor adds a bias.
template <bool centred>
void evaluate_layer(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Dims dims = x.dims();
  const size_t axis = normal_axis(ctx, ctx.node().integer("axis", -1), dims.rank());
  Dims statistic = dims;
  int64_t count = 1;
  for (size_t at = axis; at < dims.rank(); ++at) count *= dims[at], statistic[at] = 1;
  const int64_t rows = statistic.elements();
  const double epsilon = ctx.node().real("epsilon", 1e-5f);
  const auto parameter = [&](size_t input, double otherwise) {
    std::vector<double> spread(static_cast<size_t>(x.elements()), otherwise);
    if (!ctx.has(input)) return spread;
    const Tensor& tensor = ctx.input(input);
    if (tensor.dims().rank() > dims.rank() || !(broadcast(ctx, tensor.dims(), dims) == dims))
      ctx.fail("input " + std::to_string(input) + " is " + tensor.dims().str() + " for an input " + dims.str());
    const std::vector<double> list = reals(ctx, tensor);
    walk<2>(dims, {broadcast_strides(tensor.dims(), dims), strides_of(dims)},
            [&](const auto& at, int64_t run, const auto& step) {
              for (int64_t i = 0; i < run; ++i) spread[at[1] + i * step[1]] = list[at[0] + i * step[0]];
            });
    return spread;
  };
  const std::vector<double> scale = parameter(1, 1), bias = parameter(2, 0);
  const DType type = output_type(ctx, x.dtype());
  Tensor& y = ctx.output(0, type, dims);
  const std::vector<double> values = reals(ctx, x);
  std::vector<double> means(rows), inverses(rows);
  dispatch<Floats>(ctx, type, [&]<class T>(Type<T>) {
    for (int64_t row = 0; count && row < rows; ++row) {
      Moments moments = moments_of(values.data() + row * count, count);
      if (!centred) moments = {0, moments.variance + moments.mean * moments.mean};
      means[row] = moments.mean;
      inverses[row] = 1 / std::sqrt(moments.variance + epsilon);
      for (int64_t i = row * count; i < (row + 1) * count; ++i)
        y.data<T>()[i] = rounded<T>((values[i] - means[row]) * inverses[row] * scale[i] + bias[i]);
    }
  });
  for (size_t output = 1; output < 3; ++output) {
    if (!ctx.wants(output)) continue;
    Tensor& list = ctx.output(output, stash_type(ctx.node()), statistic);
    dispatch<Floats>(ctx, list.dtype(), [&]<class T>(Type<T>) {
      for (int64_t row = 0; row < rows; ++row) list.data<T>()[row] = rounded<T>((output == 1 ? means : inverses)[row]);
    });
  }
}

TENON_OP("LayerNormalization", 2, 3, 1, 3, infer_layer, evaluate_layer<true>,
         {attr::integer("axis"), attr::real("epsilon"), attr::element_type("stash_type")},
         Trait::half | Trait::centred);
TENON_OP("RMSNormalization", 2, 2, 1, 1, infer_layer, evaluate_layer<false>,
         {attr::integer("axis"), attr::real("epsilon"), attr::element_type("stash_type"),
          attr::element_type("output_dtype").internal()},
         Trait::any_float);

}  // namespace
}  // namespace tenon::ops::layer_normalization
