// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "ops/float8.h"
#include "ops/half.h"
#include "ops/op.h"

/// From a run-time element type to a template argument:
///   dispatch<Numbers>(ctx, type, [&]<class T>(Type<T>) { … });
namespace tenon::ops {

template <class T>
struct Type {
  using type = T;
};
template <class... Ts>
struct Types {};

/// Storage of DType::boolean: any byte that is not 0 is true.
struct Bool {
  uint8_t byte;
  Bool() = default;
  explicit Bool(bool value) : byte(value) {}
  operator bool() const { return byte != 0; }
};
static_assert(sizeof(Bool) == 1);

using Floats = Types<float, double, Half, BFloat>;
using Integers = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using Numbers =
    Types<float, double, Half, BFloat, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using NumbersAndBool =
    Types<float, double, Half, BFloat, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, Bool>;
using NumbersAndFloat8 =
    Types<float, double, Half, BFloat, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, E4M3>;
using NumbersAndString = Types<float, double, Half, BFloat, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                               uint32_t, uint64_t, Bool, std::string>;
using Indices = Types<int32_t, int64_t>;

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, Half>) return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat>) return DType::bf16;
  else if constexpr (std::is_same_v<T, E4M3>) return DType::f8e4m3fn;
  else if constexpr (std::is_same_v<T, Bool>) return DType::boolean;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  else if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, uint16_t>) return DType::u16;
  else if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  else if constexpr (std::is_same_v<T, uint64_t>) return DType::u64;
  else {
    static_assert(std::is_same_v<T, std::string>);
    return DType::string;
  }
}

/// The type that arithmetic on T is done in: float for floats of 16 and 8 bits, T otherwise.
template <class T>
using Wide =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat> || std::is_same_v<T, E4M3>, float, T>;
template <class T>
constexpr bool is_real = std::is_floating_point_v<Wide<T>>;

template <class F, class... Ts>
bool dispatch_over(DType type, F&& f, Types<Ts...>) {
  return ((type == dtype_of<Ts>() ? (f(Type<Ts>{}), true) : false) || ...);
}

/// Calls `f` with the type of the set that `type` names; fails the node where the set lacks it.
template <class Set, class Context, class F>
void dispatch(Context& ctx, DType type, F&& f) {
  if (!dispatch_over(type, f, Set{}))
    ctx.fail("element type " + std::string(name(type)) + " is not supported by this operation");
}

/// For ops that only move elements: `f` gets an unsigned integer of the element's size, or std::string.
template <class Context, class F>
void dispatch_moved(Context& ctx, DType type, F&& f) {
  if (type == DType::string) return f(Type<std::string>{});
  switch (type == DType::u4 || type == DType::i4 ? size_t{1} : size_of(type)) {
    case 1: return f(Type<uint8_t>{});
    case 2: return f(Type<uint16_t>{});
    case 4: return f(Type<uint32_t>{});
    case 8: return f(Type<uint64_t>{});
    default: ctx.fail("element type " + std::string(name(type)) + " is not supported by this operation");
  }
}

/// The elements of a tensor, strings included.
template <class T>
T* elements_of(Tensor& tensor) {
  if constexpr (std::is_same_v<T, std::string>) return tensor.strings().data();
  else return tensor.data<T>();
}
template <class T>
const T* elements_of(const Tensor& tensor) {
  if constexpr (std::is_same_v<T, std::string>) return tensor.strings().data();
  else return tensor.data<T>();
}

}  // namespace tenon::ops
