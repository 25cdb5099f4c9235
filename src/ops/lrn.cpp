// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/floats.h"
#include "ops/layout.h"

namespace tenon::ops::lrn {
namespace {

void infer(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  channels_last(ctx);
  if (ctx.node().integer("size", 0) < 1) ctx.fail("size is absent or below 1");
  if (x && x->size() < 2) ctx.fail("the input has rank " + std::to_string(x->size()) + "; at least 2 is needed");
  ctx.set(0, ctx.dtype(0), x ? std::optional(*x) : std::nullopt);
}

void evaluate(Evaluation& ctx) {
  const bool last = channels_last(ctx);
  const Tensor x = to_channels_first(ctx.input(0), last);
  const Dims& dims = x.dims();
  const ir::Node& node = ctx.node();
  const int64_t size = node.integer("size", 0);
  if (size < 1 || dims.rank() < 2) ctx.fail("size is below 1 or the input below rank 2");
  const double alpha = node.real("alpha", 1e-4f), beta = node.real("beta", 0.75f), bias = node.real("bias", 1);
  const int64_t channels = dims[1], plane = x.elements() ? x.elements() / dims[0] / channels : 0;
  const int64_t before = (size - 1) / 2, after = size - 1 - before;
  Tensor y(x.dtype(), dims);
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    for (int64_t n = 0; plane && n < dims[0]; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < plane; ++i) {
          const T* from = x.data<T>() + n * channels * plane + i;
          double sum = 0;
          for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(channels - 1, c + std::min(after, channels));
               ++k)
            sum += static_cast<double>(from[k * plane]) * static_cast<double>(from[k * plane]);
          const double base = bias + alpha / static_cast<double>(size) * sum;
          y.data<T>()[(n * channels + c) * plane + i] =
              rounded<T>(static_cast<double>(from[c * plane]) / std::pow(base, beta));
        }
  });
  deliver(ctx, 0, x.dtype(), to_channels_last(y, last));
}

TENON_OP("LRN", 1, 1, 1, 1, infer, evaluate,
         AttributeDefs{attr::real("alpha"), attr::real("beta"), attr::real("bias"),
                       attr::integer("size").at_least(1).required()} +
             layout_attribute(),
         Trait::same_type | Trait::same_rank | Trait::half);

}  // namespace
}  // namespace tenon::ops::lrn
