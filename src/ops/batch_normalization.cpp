// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/counted.h"
#include "ops/floats.h"
#include "ops/layout.h"

namespace tenon::ops::batch_normalization {
namespace {

void infer_batch(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  const bool last = channels_last(ctx);
  if (x && x->size() < 1) ctx.fail("the input is a scalar");
  std::optional<ir::Shape> statistic;
  if (x) {
    const ir::Dim channels = x->size() == 1 ? ir::Dim(1) : (*x)[last ? x->size() - 1 : 1];
    statistic = ir::Shape{channels};
    for (size_t input = 1; input < 5; ++input)
      if (const ir::Shape* other = ctx.shape(input);
          other &&
          (other->size() != 1 || ((*other)[0].is_constant() && channels.is_constant() && !((*other)[0] == channels))))
        ctx.fail("input " + std::to_string(input) + " is " + ir::str(*other) + " for " +
                 counted(channels.str(), "channel"));
  }
  ctx.set(0, ctx.dtype(0), x ? std::optional(*x) : std::nullopt);
  for (size_t output = 1; output < ctx.outputs(); ++output) ctx.set(output, ctx.dtype(3), statistic);
}

/// Mean and population variance of each channel, over batch and space.
template <class T>
void measure(const T* x, int64_t batch, int64_t channels, int64_t plane, std::vector<double>& mean,
             std::vector<double>& variance) {
  const double count = static_cast<double>(batch * plane);
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t i = 0; i < plane; ++i) sum += x[(n * channels + c) * plane + i];
    mean[c] = sum / count;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t i = 0; i < plane; ++i) {
        const double distance = x[(n * channels + c) * plane + i] - mean[c];
        squares += distance * distance;
      }
    variance[c] = squares / count;
  }
}

void evaluate_batch(Evaluation& ctx) {
  const bool last = channels_last(ctx), training = ctx.node().integer("training_mode", 0) != 0;
  const Tensor x = to_channels_first(ctx.input(0), last);
  const Dims dims = x.dims();
  if (dims.rank() < 1) ctx.fail("the input is a scalar");
  const int64_t channels = dims.rank() == 1 ? 1 : dims[1];
  std::vector<double> scale = reals(ctx, ctx.input(1)), bias = reals(ctx, ctx.input(2));
  std::vector<double> mean = reals(ctx, ctx.input(3)), variance = reals(ctx, ctx.input(4));
  for (const auto* list : {&scale, &bias, &mean, &variance})
    if (static_cast<int64_t>(list->size()) != channels)
      ctx.fail("a parameter has " + counted(list->size(), "element") + " for " + counted(channels, "channel"));
  const double epsilon = ctx.node().real("epsilon", 1e-5f), momentum = ctx.node().real("momentum", 0.9f);
  const int64_t plane = x.elements() ? x.elements() / dims[0] / channels : 0;
  Tensor y(x.dtype(), dims);
  std::vector<double> running_mean = mean, running_variance = variance;
  dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
    if (training) {
      measure(x.data<T>(), dims[0], channels, plane, mean, variance);
      for (int64_t c = 0; c < channels; ++c) {
        running_mean[c] = running_mean[c] * momentum + mean[c] * (1 - momentum);
        running_variance[c] = running_variance[c] * momentum + variance[c] * (1 - momentum);
      }
    }
    for (int64_t at = 0; plane && at < dims[0] * channels; ++at) {
      const int64_t c = at % channels;
      const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
      for (int64_t i = at * plane; i < (at + 1) * plane; ++i)
        y.data<T>()[i] = rounded<T>((static_cast<double>(x.data<T>()[i]) - mean[c]) * factor + bias[c]);
    }
  });
  deliver(ctx, 0, x.dtype(), to_channels_last(y, last));
  for (size_t output = 1; output < 3; ++output) {
    if (!ctx.wants(output)) continue;
    const std::vector<double>& list = output == 1 ? running_mean : running_variance;
    Tensor& statistic = ctx.output(output, ctx.input(3).dtype(), Dims{channels});
    dispatch<Floats>(ctx, statistic.dtype(), [&]<class T>(Type<T>) {
      for (int64_t c = 0; c < channels; ++c) statistic.data<T>()[c] = rounded<T>(list[c]);
    });
  }
}

TENON_OP("BatchNormalization", 5, 5, 1, 3, infer_batch, evaluate_batch,
         AttributeDefs{attr::integers("consumed_inputs").up_to(5).required(), attr::real("epsilon"),
                       attr::flag("is_test").up_to(6), attr::real("momentum"), attr::flag("spatial").up_to(8),
                       attr::flag("training_mode").from(14)} +
             layout_attribute(),
         Trait::same_type | Trait::same_rank);

}  // namespace
}  // namespace tenon::ops::batch_normalization
