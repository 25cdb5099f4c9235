// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "ops/broadcast.h"

/// Type inference that several ops share.
namespace tenon::ops {

inline std::optional<ir::Shape> known_shape(const Inference& ctx, size_t input) {
  const ir::Shape* shape = ctx.has(input) ? ctx.shape(input) : nullptr;
  return shape ? std::optional(*shape) : std::nullopt;
}

/// The sizes of a shape without symbols; nullopt otherwise.
inline std::optional<Dims> fixed_dims(const ir::Shape* shape) {
  if (!shape || !ir::is_constant(*shape)) return std::nullopt;
  Dims dims;
  for (const ir::Dim& dim : *shape) dims.push_back(dim.value());
  return dims;
}

/// Fresh symbols for a tensor of which only the rank is known.
inline ir::Shape unknown_shape(Inference& ctx, size_t rank) {
  ir::Shape shape;
  while (shape.size() < rank) shape.push_back(ctx.unknown());
  return shape;
}

/// Number of elements of a 1-D input where that is known: the length of an axes or shape operand.
inline std::optional<int64_t> known_length(const Inference& ctx, size_t input) {
  const ir::Shape* shape = ctx.has(input) ? ctx.shape(input) : nullptr;
  if (!shape || shape->size() != 1 || !(*shape)[0].is_constant()) return std::nullopt;
  return (*shape)[0].value();
}

/// Of elementwise ops with infer_same.
inline constexpr Traits unary_traits = Trait::elementwise | Trait::same_type | Trait::same_rank;

/// Output 0 has the type and the shape of input 0.
inline void infer_same(Inference& ctx) { ctx.set(0, ctx.dtype(0), known_shape(ctx, 0)); }

/// Output 0 has the shape of input 0 and is boolean.
inline void infer_same_bool(Inference& ctx) { ctx.set(0, DType::boolean, known_shape(ctx, 0)); }

/// The shape that inputs [first, inputs) broadcast to; nullopt while one is unknown.
inline std::optional<ir::Shape> broadcast_inputs(Inference& ctx, size_t first = 0) {
  std::optional<ir::Shape> out;
  for (size_t input = first; input < ctx.inputs(); ++input) {
    const ir::Shape* shape = ctx.has(input) ? ctx.shape(input) : nullptr;
    if (!shape) return std::nullopt;
    out = out ? broadcast(ctx, *out, *shape) : *shape;
  }
  return out;
}

/// Output 0 has the type of input 0 and the shape that all inputs broadcast to.
inline void infer_broadcast(Inference& ctx) { ctx.set(0, ctx.dtype(0), broadcast_inputs(ctx)); }

inline void infer_broadcast_bool(Inference& ctx) { ctx.set(0, DType::boolean, broadcast_inputs(ctx)); }

/// Inputs 0 and 1 must have one element type.
template <class Context>
void want_same_dtype(const Context& ctx, DType a, DType b) {
  if (a != b && a != DType::undefined && b != DType::undefined)
    ctx.fail("operands of different element types " + std::string(name(a)) + " and " + std::string(name(b)),
             "add a Cast");
}

/// The same of a product's data and its weights, which passes store in 16 bits where data are of f32.
template <class Context>
void want_weight_dtype(const Context& ctx, DType data, DType weights) {
  if (data != DType::f32 || (weights != DType::f16 && weights != DType::bf16)) want_same_dtype(ctx, data, weights);
}

/// The known elements of a scalar or 1-D input, whose broadcasting needs no strides.
inline std::optional<std::vector<ir::Dim>> flat_content(const Inference& ctx, size_t input) {
  const ir::Shape* shape = ctx.has(input) ? ctx.shape(input) : nullptr;
  return shape && shape->size() <= 1 ? ctx.content(input) : std::nullopt;
}

/// Contents longer than this are not tracked.
constexpr size_t content_limit = 1024;

/// Passes on what is known of the elements of an input by an op that only changes shape.
inline void pass_content(Inference& ctx, size_t input = 0) {
  if (auto content = ctx.content(input)) ctx.set_content(0, std::move(*content));
}

}  // namespace tenon::ops
