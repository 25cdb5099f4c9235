// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <type_traits>

#include "warp.h"

/// Operations on the numbers of each lane by itself.
namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
constexpr int bits_in = static_cast<int>(sizeof(T) * 8);
template <class T>
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

/// Of whole numbers; sums wrap around.
struct Sum {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Least {
  template <class T>
  static T of(T a, T b) {
    return std::min(a, b);
  }
};
struct Most {
  template <class T>
  static T of(T a, T b) {
    return std::max(a, b);
  }
};

/// Operands: the result, then what it is made of.
template <class Op, class D, class A>
void one(Warp& w, const Instruction& i) {
  D* d = w.lanes<D>(i.at[0]);
  const A* a = w.lanes<A>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = static_cast<D>(Op::of(a[l])); });
}
template <class Op, class D, class A, class B>
void two(Warp& w, const Instruction& i) {
  D* d = w.lanes<D>(i.at[0]);
  const A* a = w.lanes<A>(i.at[1]);
  const B* b = w.lanes<B>(i.at[2]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = static_cast<D>(Op::of(a[l], b[l])); });
}
template <class Op, class D, class A, class B, class C>
void three(Warp& w, const Instruction& i) {
  D* d = w.lanes<D>(i.at[0]);
  const A* a = w.lanes<A>(i.at[1]);
  const B* b = w.lanes<B>(i.at[2]);
  const C* c = w.lanes<C>(i.at[3]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = static_cast<D>(Op::of(a[l], b[l], c[l])); });
}
/// Calls `with` with a number of the type; signed and unsigned where they differ.
template <class With>
Run of_type(const std::string& type, const With& with) {
  if (type == "s32") return with(int32_t{});
  if (type == "u32" || type == "b32" || type == "pred" || type == "f32") return with(uint32_t{});
  if (type == "s64") return with(int64_t{});
  if (type == "u64" || type == "b64" || type == "f64") return with(uint64_t{});
  if (type == "s16") return with(int16_t{});
  if (type == "u16" || type == "b16" || type == "f16" || type == "bf16") return with(uint16_t{});
  return nullptr;
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
