// SPDX-License-Identifier: Apache-2.0
#include "ops/rearrange.h"

#include "ops/dispatch.h"
#include "ops/inference.h"
#include "ops/layout.h"

namespace tenon::ops::rearrange {
namespace {

struct Axes {
  size_t channels, rows, columns;
};
Axes axes_of(const ir::Node& node) { return node.text("layout", "NCHW") == "NHWC" ? Axes{3, 1, 2} : Axes{1, 2, 3}; }
Dims dims_of(const Strides& strides, size_t rank) {
  Dims dims;
  for (size_t at = 0; at < rank; ++at) dims.push_back(strides[at]);
  return dims;
}

int64_t block_of(const auto& ctx) {
  const int64_t block = ctx.node().integer("blocksize", 0);
  if (block < 1 || block > 1 << 15) ctx.fail("blocksize is " + std::to_string(block));
  return block;
}

void infer_depth_to_space(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  const int64_t block = block_of(ctx);
  if (!from) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 4));
  if (from->size() != 4) ctx.fail("the input has rank " + std::to_string(from->size()) + ", not 4");
  ir::Shape x = *from;
  const Axes axes = axes_of(ctx.node());
  const auto channels = x[axes.channels].exact_div(block * block);
  if (!channels && x[axes.channels].is_constant())
    ctx.fail("channels " + x[axes.channels].str() + " do not divide by the squared block");
  x[axes.channels] = channels ? *channels : ctx.unknown();
  x[axes.rows] = x[axes.rows] * block, x[axes.columns] = x[axes.columns] * block;
  ctx.set(0, ctx.dtype(0), x);
}

void infer_space_to_depth(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  const int64_t block = block_of(ctx);
  if (!from) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 4));
  if (from->size() != 4) ctx.fail("the input has rank " + std::to_string(from->size()) + ", not 4");
  ir::Shape x = *from;
  const Axes axes = axes_of(ctx.node());
  x[axes.channels] = x[axes.channels] * (block * block);
  for (const size_t axis : {axes.rows, axes.columns})
    if (x[axis].is_constant() && x[axis].value() % block != 0)
      ctx.fail("a plane of " + x[axes.rows].str() + "x" + x[axes.columns].str() + " does not divide into blocks of " +
               std::to_string(block));
  x[axes.rows] = x[axes.rows].floor_div(block), x[axes.columns] = x[axes.columns].floor_div(block);
  ctx.set(0, ctx.dtype(0), x);
}

void rearrange(Evaluation& ctx, const Dims& to_dims) {
  const Tensor& x = ctx.input(0);
  const Rearrangement copy =
      rearrangement(ctx.node(), x.dims(), dims_of(strides_of(x.dims()), 4), dims_of(strides_of(to_dims), 4));
  Strides from{}, to{};
  std::copy(copy.from.begin(), copy.from.end(), from.begin());
  std::copy(copy.to.begin(), copy.to.end(), to.begin());
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* source = elements_of<T>(x);
    T* target = elements_of<T>(ctx.output(0, x.dtype(), to_dims));
    walk<2>(copy.dims, {from, to}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i) target[at[1] + i * step[1]] = source[at[0] + i * step[0]];
    });
  });
}

void depth_to_space(Evaluation& ctx) {
  const Dims d = ctx.input(0).dims();
  const int64_t b = block_of(ctx);
  const std::string mode = ctx.node().text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") ctx.fail("mode is \"" + mode + "\"", "it is DCR or CRD");
  const Axes axes = axes_of(ctx.node());
  if (d.rank() != 4 || d[axes.channels] % (b * b))
    ctx.fail("shape " + d.str() + " does not divide into blocks of " + std::to_string(b));
  Dims to = d;
  to[axes.channels] /= b * b, to[axes.rows] *= b, to[axes.columns] *= b;
  rearrange(ctx, to);
}

void space_to_depth(Evaluation& ctx) {
  const Dims d = ctx.input(0).dims();
  const int64_t b = block_of(ctx);
  const Axes axes = axes_of(ctx.node());
  if (d.rank() != 4 || d[axes.rows] % b || d[axes.columns] % b)
    ctx.fail("shape " + d.str() + " does not divide into blocks of " + std::to_string(b));
  Dims to = d;
  to[axes.channels] *= b * b, to[axes.rows] /= b, to[axes.columns] /= b;
  rearrange(ctx, to);
}

/// Reverses the first sequence_lens[n] steps of each sequence n.
void reverse_sequence(Evaluation& ctx) {
  const Tensor& x = ctx.input(0);
  const Dims& dims = x.dims();
  const size_t rank = dims.rank();
  const size_t batch = normal_axis(ctx, ctx.node().integer("batch_axis", 1), rank),
               time = normal_axis(ctx, ctx.node().integer("time_axis", 0), rank);
  if (rank < 2 || batch + time != 1) ctx.fail("batch_axis and time_axis must be 0 and 1 in either order");
  const auto lengths = ctx.integers(1);
  if (static_cast<int64_t>(lengths.size()) != dims[batch]) ctx.fail("one length per sequence is wanted");
  for (int64_t length : lengths)
    if (length < 0 || length > dims[time]) ctx.fail("a length is " + std::to_string(length));
  const Around all = around(dims, 1);
  const int64_t inner = all.inner;
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), dims));
    for (int64_t n = 0; n < dims[batch]; ++n)
      for (int64_t t = 0; t < dims[time]; ++t) {
        const int64_t source = t < lengths[n] ? lengths[n] - 1 - t : t;
        const auto offset = [&](int64_t step) {
          return (batch == 0 ? n * dims[1] + step : step * dims[1] + n) * inner;
        };
        std::copy_n(from + offset(source), inner, to + offset(t));
      }
  });
}

TENON_OP("DepthToSpace", 1, 1, 1, 1, infer_depth_to_space, depth_to_space,
         layout_attribute() + AttributeDefs{attr::integer("blocksize").at_least(1).required(),
                                            attr::text("mode").one_of({"DCR", "CRD"}).from(11)},
         Trait::moves | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half);
TENON_OP("SpaceToDepth", 1, 1, 1, 1, infer_space_to_depth, space_to_depth,
         layout_attribute() + AttributeDefs{attr::integer("blocksize").at_least(1).required()},
         Trait::moves | Trait::same_type | Trait::same_rank | Trait::same_scale | Trait::half);
TENON_OP("ReverseSequence", 2, 2, 1, 1, infer_same, reverse_sequence,
         {attr::integer("batch_axis").between(0, 1), attr::integer("time_axis").between(0, 1)}, Trait::moves);

}  // namespace
}  // namespace tenon::ops::rearrange

namespace tenon::ops {

Rearrangement rearrangement(const ir::Node& node, const Dims& dims, const Dims& x, const Dims& y) {
  const auto [c, h, w] = rearrange::axes_of(node);
  const bool widens = node.op == "DepthToSpace", last = c == 3;
  const int64_t b = node.integer("blocksize", 1);
  // The one side has blocks of pixels, the other their b * b places among the channels.
  const Dims &fine = widens ? y : x, &deep = widens ? x : y;
  const int64_t channels = widens ? dims[c] / (b * b) : dims[c];
  const bool channels_first = node.text("mode", "DCR") == "CRD";
  struct Axis {
    int64_t size, fine, deep;
  };
  const Axis image{dims[0], fine[0], deep[0]};
  const Axis rows{widens ? dims[h] : dims[h] / b, fine[h] * b, deep[h]};
  const Axis columns{widens ? dims[w] : dims[w] / b, fine[w] * b, deep[w]};
  const Axis row{b, fine[h], deep[c] * (channels_first ? b : b * channels)};
  const Axis column{b, fine[w], deep[c] * (channels_first ? 1 : channels)};
  const Axis channel{channels, fine[c], deep[c] * (channels_first ? b * b : 1)};
  const std::array<Axis, 6> order = widens ? (last ? std::array<Axis, 6>{image, rows, row, columns, column, channel}
                                                   : std::array<Axis, 6>{image, channel, rows, row, columns, column})
                                           : (last ? std::array<Axis, 6>{image, rows, columns, row, column, channel}
                                                   : std::array<Axis, 6>{image, row, column, channel, rows, columns});
  Rearrangement copy;
  for (const Axis& axis : order) {
    copy.dims.push_back(axis.size);
    copy.from.push_back(widens ? axis.deep : axis.fine), copy.to.push_back(widens ? axis.fine : axis.deep);
  }
  return copy;
}

}  // namespace tenon::ops
