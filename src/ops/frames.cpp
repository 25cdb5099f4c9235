// SPDX-License-Identifier: Apache-2.0
#include "ops/frames.h"

#include "ops/dispatch.h"
#include "ops/inference.h"

/// Internal op Frames: slices of one tensor along `axis`, the k-th from k * step on, `frames` elements that lie
/// `stride` apart, `count` of them one behind the other along `along`, and `zeros` zeros behind them: what each window
/// of frames sees, as channels.
namespace tenon::ops::frames {
namespace {

struct Setting {
  size_t axis, along;
  int64_t count, step, stride, frames, zeros;
};

Setting setting_of(const ir::Node& node) {
  const auto axis = [&](const char* name) { return static_cast<size_t>(node.integer(name, 0)); };
  return {axis("axis"),
          axis("along"),
          node.integer("count", 1),
          node.integer("step", 1),
          node.integer("stride", 1),
          node.integer("frames", 1),
          node.integer("zeros", 0)};
}

void check(const auto& ctx, const Setting& setting, size_t rank) {
  if (setting.axis >= rank || setting.along >= rank || setting.axis == setting.along || rank >= Dims::max_rank)
    ctx.fail("axes " + std::to_string(setting.axis) + " and " + std::to_string(setting.along) + " of " +
             std::to_string(rank));
}

/// Elements along the axis that the last frame of the last slice needs.
int64_t needed(const Setting& setting) {
  constexpr int64_t most = int64_t{1} << 31;
  if (std::max({setting.count, setting.step, setting.stride, setting.frames}) > most) return -1;
  return (setting.count - 1) * setting.step + (setting.frames - 1) * setting.stride + 1;
}

void infer(Inference& ctx) {
  const Setting setting = setting_of(ctx.node());
  const ir::Shape* x = ctx.shape(0);
  if (!x) return ctx.set(0, ctx.dtype(0), std::nullopt);
  check(ctx, setting, x->size());
  ir::Shape y = *x;
  const ir::Dim& size = y[setting.axis];
  if (needed(setting) < 0 || (size.is_constant() && size.value() < needed(setting)))
    ctx.fail("frames reach beyond the " + size.str() + " that there are");
  y[setting.axis] = setting.frames, y[setting.along] = y[setting.along] * setting.count + setting.zeros;
  ctx.set(0, ctx.dtype(0), y);
}

void evaluate(Evaluation& ctx) {
  const Setting setting = setting_of(ctx.node());
  const Tensor& x = ctx.input(0);
  Dims y = x.dims();
  check(ctx, setting, y.rank());
  if (needed(setting) < 0 || y[setting.axis] < needed(setting)) ctx.fail("frames reach beyond " + y.str());
  y[setting.axis] = setting.frames, y[setting.along] = y[setting.along] * setting.count + setting.zeros;
  const auto dims_of = [&](const Strides& strides) {
    Dims dims;
    for (size_t at = 0; at < y.rank(); ++at) dims.push_back(strides[at]);
    return dims;
  };
  const Rearrangement copy = frames_copy(ctx.node(), y, dims_of(strides_of(x.dims())), dims_of(strides_of(y)));
  Strides from{}, to{};
  std::copy(copy.from.begin(), copy.from.end(), from.begin());
  std::copy(copy.to.begin(), copy.to.end(), to.begin());
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* source = elements_of<T>(x);
    T* target = elements_of<T>(ctx.output(0, x.dtype(), y));
    if (setting.zeros > 0) std::fill_n(target, y.elements(), T());
    walk<2>(copy.dims, {from, to}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i) target[at[1] + i * step[1]] = source[at[0] + i * step[0]];
    });
  });
}

TENON_OP("tenon:Frames", 1, 1, 1, 1, infer, evaluate,
         {attr::integer("axis").at_least(0).required().internal(),
          attr::integer("along").at_least(0).required().internal(),
          attr::integer("count").at_least(1).required().internal(), attr::integer("step").at_least(1).internal(),
          attr::integer("stride").at_least(1).internal(), attr::integer("frames").at_least(1).required().internal(),
          attr::integer("zeros").at_least(0).internal()},
         Trait::moves | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half);

}  // namespace
}  // namespace tenon::ops::frames

namespace tenon::ops {

Rearrangement frames_copy(const ir::Node& node, const Dims& dims, const Dims& x, const Dims& y) {
  const auto [axis, along, count, step, stride, frames, zeros] = frames::setting_of(node);
  Rearrangement copy;
  for (size_t at = 0; at < dims.rank(); ++at) {
    if (at == along) {
      const int64_t own = (dims[at] - zeros) / count;
      copy.dims.push_back(count), copy.from.push_back(x[axis] * step), copy.to.push_back(y[at] * own);
      copy.dims.push_back(own);
    } else {
      copy.dims.push_back(dims[at]);
    }
    copy.from.push_back(at == axis ? x[at] * stride : x[at]), copy.to.push_back(y[at]);
  }
  return copy;
}

}  // namespace tenon::ops
