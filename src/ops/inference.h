// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/counted.h"
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

/// Whether two sizes are known, and not the same.
inline bool differ(const ir::Dim& a, const ir::Dim& b) { return a.is_constant() && b.is_constant() && !(a == b); }

/// Whether a tensor of the sizes `from` may broadcast to `to` alone.
inline bool broadcasts_to(const ir::Shape& from, const ir::Shape& to) {
  bool fits = from.size() <= to.size();
  for (size_t back = 1; fits && back <= from.size(); ++back) {
    const ir::Dim& size = from[from.size() - back];
    fits = size == ir::Dim(1) || !differ(size, to[to.size() - back]);
  }
  return fits;
}

/// Whether two shapes may be the same.
inline bool may_agree(const ir::Shape& a, const ir::Shape& b) {
  bool same = a.size() == b.size();
  for (size_t axis = 0; same && axis < a.size(); ++axis) same = !differ(a[axis], b[axis]);
  return same;
}

/// Number of elements of a shape, and of an input, where that is known.
inline std::optional<int64_t> known_elements(const ir::Shape& shape) {
  const ir::Dim count = ir::product(shape);
  return count.is_constant() ? std::optional(count.value()) : std::nullopt;
}
inline std::optional<int64_t> known_elements(const Inference& ctx, size_t input) {
  const ir::Shape* shape = ctx.has(input) ? ctx.shape(input) : nullptr;
  return shape ? known_elements(*shape) : std::nullopt;
}

// What kernels rely on: each of these fails the node where an operand is there, what is asked of it is known, and it is
// otherwise. `what` names the operand.

inline void want_type(const Inference& ctx, size_t input, std::initializer_list<DType> types, const char* what) {
  const DType type = ctx.dtype(input);
  std::string names;
  for (const DType one : types) {
    if (one == type || type == DType::undefined) return;
    names += (names.empty() ? "" : " or ") + std::string(name(one));
  }
  ctx.fail(std::string(what) + " must be of " + names + ", not " + std::string(name(type)));
}

inline void want_integers(const Inference& ctx, size_t input, const char* what) {
  want_type(ctx, input, {DType::i64, DType::i32}, what);
}

inline void want_floats(const Inference& ctx, size_t input, const char* what) {
  want_type(ctx, input, {DType::f32, DType::f16, DType::bf16, DType::f64}, what);
}

inline void want_elements(const Inference& ctx, size_t input, int64_t count, const char* what) {
  const auto known = known_elements(ctx, input);
  if (known && *known != count)
    ctx.fail(std::string(what) + " has " + counted(*known, "element") + ", not " + std::to_string(count));
}

inline void want_one(const Inference& ctx, size_t input, const char* what) { want_elements(ctx, input, 1, what); }

inline void want_rank(const Inference& ctx, size_t input, size_t rank, const char* what) {
  const ir::Shape* shape = ctx.has(input) ? ctx.shape(input) : nullptr;
  if (shape && shape->size() != rank)
    ctx.fail(std::string(what) + " is " + ir::str(*shape) + " of rank " + std::to_string(shape->size()) + ", not " +
             std::to_string(rank));
}

/// Of an op that takes elements of input 0 along an axis by indices, input 1: these have as many axes, and elsewhere
/// are no larger.
inline void want_inside(const Inference& ctx, int64_t axis) {
  const ir::Shape *data = ctx.shape(0), *indices = ctx.shape(1);
  if (!data) return;
  const size_t along = normal_axis(ctx, axis, data->size());
  if (!indices) return;
  if (indices->size() != data->size())
    ctx.fail("indices of rank " + std::to_string(indices->size()) + " for data of rank " +
             std::to_string(data->size()));
  for (size_t at = 0; at < data->size(); ++at) {
    const ir::Dim &has = (*indices)[at], &room = (*data)[at];
    if (at != along && has.is_constant() && room.is_constant() && has.value() > room.value())
      ctx.fail("indices " + ir::str(*indices) + " reach outside data " + ir::str(*data));
  }
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

/// Inputs 0 and 1 must have one element type. Inference may not know it yet; a kernel must not read what has none.
template <class Context>
void want_same_dtype(const Context& ctx, DType a, DType b) {
  constexpr bool may_be_unknown = std::is_same_v<Context, Inference>;
  if (a != b && !(may_be_unknown && (a == DType::undefined || b == DType::undefined)))
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
