// SPDX-License-Identifier: Apache-2.0
#include "ops/dispatch.h"
#include "ops/inference.h"

namespace tenon::ops::rearrange {
namespace {

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
  const ir::Shape x = *from;
  const auto channels = x[1].exact_div(block * block);
  if (!channels && x[1].is_constant()) ctx.fail("channels " + x[1].str() + " do not divide by the squared block");
  ctx.set(0, ctx.dtype(0), ir::Shape{x[0], channels ? *channels : ctx.unknown(), x[2] * block, x[3] * block});
}

void infer_space_to_depth(Inference& ctx) {
  const ir::Shape* from = ctx.shape(0);
  const int64_t block = block_of(ctx);
  if (!from) return ctx.set(0, ctx.dtype(0), unknown_shape(ctx, 4));
  if (from->size() != 4) ctx.fail("the input has rank " + std::to_string(from->size()) + ", not 4");
  const ir::Shape x = *from;
  ctx.set(0, ctx.dtype(0), ir::Shape{x[0], x[1] * (block * block), x[2].floor_div(block), x[3].floor_div(block)});
}

/// Reads the input as six axes, and writes them in the given order.
void permute(Evaluation& ctx, const Dims& six, const std::array<size_t, 6>& order, const Dims& to_dims) {
  const Tensor& x = ctx.input(0);
  const Strides own = strides_of(six);
  Dims dims;
  Strides strides{};
  for (size_t at = 0; at < 6; ++at) {
    dims.push_back(six[order[at]]);
    strides[at] = own[order[at]];
  }
  dispatch_moved(ctx, x.dtype(), [&]<class T>(Type<T>) {
    const T* from = elements_of<T>(x);
    T* to = elements_of<T>(ctx.output(0, x.dtype(), to_dims));
    walk<2>(dims, {strides, strides_of(dims)}, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t i = 0; i < count; ++i) to[at[1] + i] = from[at[0] + i * step[0]];
    });
  });
}

void depth_to_space(Evaluation& ctx) {
  const Dims d = ctx.input(0).dims();
  const int64_t b = block_of(ctx);
  const std::string mode = ctx.node().text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") ctx.fail("mode is \"" + mode + "\"", "it is DCR or CRD");
  if (d.rank() != 4 || d[1] % (b * b))
    ctx.fail("shape " + d.str() + " does not divide into blocks of " + std::to_string(b));
  const int64_t c = d[1] / (b * b);
  const Dims to{d[0], c, d[2] * b, d[3] * b};
  if (mode == "DCR") permute(ctx, {d[0], b, b, c, d[2], d[3]}, {0, 3, 4, 1, 5, 2}, to);
  else permute(ctx, {d[0], c, b, b, d[2], d[3]}, {0, 1, 4, 2, 5, 3}, to);
}

void space_to_depth(Evaluation& ctx) {
  const Dims d = ctx.input(0).dims();
  const int64_t b = block_of(ctx);
  if (d.rank() != 4 || d[2] % b || d[3] % b)
    ctx.fail("shape " + d.str() + " does not divide into blocks of " + std::to_string(b));
  permute(ctx, {d[0], d[1], d[2] / b, b, d[3] / b, b}, {0, 3, 5, 1, 2, 4}, {d[0], d[1] * b * b, d[2] / b, d[3] / b});
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
         {attr::integer("blocksize").at_least(1).required(), attr::text("mode").one_of({"DCR", "CRD"}).from(11)},
         Trait::moves | Trait::same_scale);
TENON_OP("SpaceToDepth", 1, 1, 1, 1, infer_space_to_depth, space_to_depth,
         {attr::integer("blocksize").at_least(1).required()}, Trait::moves | Trait::same_scale);
TENON_OP("ReverseSequence", 2, 2, 1, 1, infer_same, reverse_sequence,
         {attr::integer("batch_axis").between(0, 1), attr::integer("time_axis").between(0, 1)}, Trait::moves);

}  // namespace
}  // namespace tenon::ops::rearrange
