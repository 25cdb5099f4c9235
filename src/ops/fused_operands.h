// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/window.h"

/// What the kernels of internal convolutions rely on beside sizes: types and lengths of the small operands.
namespace tenon::ops {

/// Whether a convolution of integers quantises what it reads to 16 bits first.
inline bool reads_int16(const ir::Node& node) { return node.op == "tenon:Int16Conv"; }

/// Fails the node where a known input is not of the type, or neither one number nor `channels` of them. Where
/// `channels` is nullptr it is one number.
inline void want_numbers(Inference& ctx, size_t input, DType type, const ir::Dim* channels) {
  if (!ctx.has(input)) return;
  const std::string name = "input " + std::to_string(input);
  if (ctx.dtype(input) != DType::undefined && ctx.dtype(input) != type)
    ctx.fail(name + " is of type " + std::string(tenon::name(ctx.dtype(input))) + ", not " +
             std::string(tenon::name(type)));
  const ir::Shape* shape = ctx.shape(input);
  if (!shape) return;
  const ir::Dim count = product(*shape);
  if (shape->size() > 1 || (differ(count, 1) && (!channels || differ(count, *channels))))
    ctx.fail(name + " is " + ir::str(*shape) + ", neither one number" +
             (channels ? " nor one for each channel" : std::string()));
}

/// Operands of a convolution of bytes, as src/ops/int8_conv.cpp lists them, from the bias on. `x` is the type of the
/// zero point of x.
inline void check_quantised_operands(Inference& ctx, DType byte, const std::optional<ir::Shape>& output, DType x) {
  enum : size_t { w_at = 1, bias_at, residual_at, x_scale, x_zero, w_scale, y_scale, y_zero, r_scale, r_zero };
  const ir::Shape* weights = ctx.shape(w_at);
  const ir::Dim unknown = ir::Dim::symbol("channels");
  const ir::Dim* channels = weights && !weights->empty() ? &(*weights)[0] : &unknown;
  if (const ir::Shape* bias = ctx.shape(bias_at); bias && (bias->size() != 1 || differ((*bias)[0], *channels)))
    ctx.fail("the bias is " + ir::str(*bias) + " for " + channels->str() + " output channels");
  for (const size_t at : {w_scale, y_scale, r_scale, bias_at}) want_numbers(ctx, at, DType::f32, channels);
  want_numbers(ctx, x_scale, DType::f32, nullptr);
  want_numbers(ctx, x_zero, x, nullptr);
  for (const size_t at : {y_zero, r_zero}) want_numbers(ctx, at, byte, nullptr);
  if (!ctx.has(residual_at)) return;
  if (ctx.dtype(residual_at) != DType::undefined && ctx.dtype(residual_at) != byte)
    ctx.fail("the residual is of another element type than the output");
  const ir::Shape* residual = ctx.shape(residual_at);
  if (!residual || !output) return;
  bool same = residual->size() == output->size();
  for (size_t axis = 0; same && axis < output->size(); ++axis) same = !differ((*residual)[axis], (*output)[axis]);
  if (!same) ctx.fail("the residual is " + ir::str(*residual) + " where the output is " + ir::str(*output));
}

}  // namespace tenon::ops
