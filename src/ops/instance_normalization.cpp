// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/counted.h"
#include "ops/epilogue.h"
#include "ops/floats.h"
#include "ops/layout.h"
#include "ops/normalize.h"
#include "ops/window.h"

namespace tenon::ops::instance_normalization {
namespace {

void check_parameters(Inference& ctx, const ir::Shape& x, const ir::Dim& channels, int64_t groups) {
  if (x.size() < 2) ctx.fail("the input has rank " + std::to_string(x.size()) + "; at least 2 is needed");
  for (size_t input = 1; input < 3; ++input) {
    const ir::Shape* list = ctx.shape(input);
    if (list && (list->size() != 1 || (differ((*list)[0], channels) && differ((*list)[0], groups))))
      ctx.fail("input " + std::to_string(input) + " is " + ir::str(*list) + " for " +
               counted(channels.str(), "channel"));
  }
  const ir::Shape *scale = ctx.shape(1), *bias = ctx.shape(2);
  if (scale && bias && differ((*scale)[0], (*bias)[0]))
    ctx.fail("scale is " + ir::str(*scale) + " and bias " + ir::str(*bias));
}

int64_t read_groups(const ir::Node& node) { return node.integer("num_groups", 1); }

template <bool grouped>
void infer_groups(Inference& ctx) {
  const ir::Shape* x = ctx.shape(0);
  if (x) {
    const size_t channel = channels_last(ctx) && x->size() > 2 ? x->size() - 1 : 1;
    const ir::Dim channels = x->size() < 2 ? ir::Dim(0) : (*x)[channel];
    const int64_t groups = grouped ? read_groups(ctx.node()) : -1;
    if (grouped && groups < 1) ctx.fail("num_groups is " + std::to_string(groups));
    check_parameters(ctx, *x, channels, groups);
    if (grouped && channels.is_constant() && channels.value() % groups != 0)
      ctx.fail(counted(channels.str(), "channel") + " cannot be split into " + counted(groups, "group"));
  }
  if (!read_epilogue(ctx).slopes.empty()) ctx.fail("takes no activation with slopes");
  ctx.set(0, ctx.dtype(0), x ? std::optional(*x) : std::nullopt);
}

/// An instance norm is a group norm with one channel a group. Parameters are one per channel, or one per group (opset
/// 18).
template <bool grouped>
void evaluate_groups(Evaluation& ctx) {
  const bool last = channels_last(ctx);
  const Tensor x = to_channels_first(ctx.input(0), last);
  const Dims& dims = x.dims();
  if (dims.rank() < 2) ctx.fail("the input has rank " + std::to_string(dims.rank()) + "; at least 2 is needed");
  const int64_t channels = dims[1], groups = grouped ? read_groups(ctx.node()) : channels;
  if (groups < 1 || channels % groups != 0)
    ctx.fail(counted(channels, "channel") + " cannot be split into " + counted(groups, "group"));
  const std::vector<double> scale = reals(ctx, ctx.input(1)), bias = reals(ctx, ctx.input(2));
  const int64_t parameters = static_cast<int64_t>(scale.size());
  if (scale.size() != bias.size() || (parameters != channels && parameters != groups))
    ctx.fail("scale and bias have " + std::to_string(scale.size()) + " and " + counted(bias.size(), "element") +
             " for " + counted(channels, "channel"));
  const Epilogue epilogue = read_epilogue(ctx);
  const double epsilon = ctx.node().real("epsilon", 1e-5f);
  Tensor y(x.dtype(), dims);
  if (x.elements() > 0) {
    const int64_t plane = x.elements() / dims[0] / channels, count = plane * (channels / groups);
    dispatch<Floats>(ctx, x.dtype(), [&]<class T>(Type<T>) {
      for (int64_t row = 0; row < dims[0] * groups; ++row) {
        const T* from = x.data<T>() + row * count;
        const Moments moments = moments_of(from, count);
        const double factor = 1 / std::sqrt(moments.variance + epsilon);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t channel = row % groups * (channels / groups) + i / plane;
          const int64_t at = channel * parameters / channels;
          const double normal = (static_cast<double>(from[i]) - moments.mean) * factor * scale[at] + bias[at];
          y.data<T>()[row * count + i] = rounded<T>(activate(epilogue, normal, 0));
        }
      }
    });
  }
  deliver(ctx, 0, x.dtype(), to_channels_last(y, last));
}

constexpr Traits traits = Trait::same_type | Trait::same_rank | Trait::half;
TENON_OP("InstanceNormalization", 3, 3, 1, 1, infer_groups<false>, evaluate_groups<false>,
         AttributeDefs{attr::consumed_inputs(), attr::real("epsilon")} + layout_attribute() + activation_attributes(),
         traits);
TENON_OP("GroupNormalization", 3, 3, 1, 1, infer_groups<true>, evaluate_groups<true>,
         AttributeDefs{attr::real("epsilon").from(21), attr::integer("num_groups").at_least(1).from(21).required(),
                       attr::element_type("stash_type").from(21)} +
             layout_attribute() + activation_attributes(),
         traits);

}  // namespace
}  // namespace tenon::ops::instance_normalization
