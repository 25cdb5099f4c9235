// SPDX-License-Identifier: Apache-2.0
// setp and set: numbers are compared, and what comes out is put together with another predicate.
#include <cmath>

#include "rounding.h"
#include "warp.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

struct F16 {
  uint16_t bits;
  operator float() const { return f16_value(bits); }
};
struct Bf16 {
  uint16_t bits;
  operator float() const { return bf16_value(bits); }
};

struct Equal {
  template <class T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  static bool of(T a, T b) {
    return (a < b) | (a > b);
  }
};
struct Less {
  template <class T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct LessOrEqual {
  template <class T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  static bool of(T a, T b) {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <class T>
  static bool of(T a, T b) {
    return a >= b;
  }
};
struct BothNumbers {
  template <class T>
  static bool of(T a, T b) {
    return (a == a) & (b == b);
  }
};
/// Also where one is NaN.
template <class Op>
struct Or {
  template <class T>
  static bool of(T a, T b) {
    return !Op::of(a, b);
  }
};

constexpr int none = 0, with_and = 1, with_or = 2, with_xor = 3;

/// Which lanes' numbers compare so. Each comparison is compiled once, whatever it is put together with.
template <class Op, class T, class C>
[[gnu::noinline]] void compare(Warp& w, const Instruction& i, int first, uint32_t* is_so) {
  const T *a = w.lanes<T>(i.at[first]), *b = w.lanes<T>(i.at[first + 1]);
  for_lanes(lanes_for_results(w),
            [&](int l) { is_so[l] = Op::of(static_cast<C>(a[l]), static_cast<C>(b[l])) ? all_lanes : 0; });
}
template <int HOW, bool PAIR>
[[gnu::noinline]] void write(Warp& w, const Instruction& i, const uint32_t* is_so) {
  uint32_t* d = w.lanes<uint32_t>(i.at[0]);
  const uint32_t* other = w.lanes<uint32_t>(i.at[PAIR ? 4 : 3]);
  uint32_t* opposite = w.lanes<uint32_t>(i.at[PAIR ? 1 : 0]);
  const uint32_t turned = HOW != none && i.offset ? all_lanes : 0;
  for_lanes(lanes_for_results(w), [&](int l) {
    uint32_t result = is_so[l], not_so = ~result;
    const uint32_t third = HOW == none ? 0 : other[l] ^ turned;
    if (HOW == with_and) result &= third, not_so &= third;
    if (HOW == with_or) result |= third, not_so |= third;
    if (HOW == with_xor) result ^= third, not_so ^= third;
    d[l] = result;
    if (PAIR) opposite[l] = not_so;
  });
}
/// Operands: the result, with PAIR its opposite, the two numbers, with HOW another predicate.
template <class Op, class T, class C, int HOW, bool PAIR>
void run(Warp& w, const Instruction& i) {
  uint32_t is_so[lanes_of_warp];
  compare<Op, T, C>(w, i, PAIR ? 2 : 1, is_so);
  write<HOW, PAIR>(w, i, is_so);
}

template <class Op, class T, class C>
Run form(const Words& words) {
  const bool pair = words[0] == "setp2";
  if (has(words, "and")) return pair ? run<Op, T, C, with_and, true> : run<Op, T, C, with_and, false>;
  if (has(words, "or")) return pair ? run<Op, T, C, with_or, true> : run<Op, T, C, with_or, false>;
  if (has(words, "xor")) return pair ? run<Op, T, C, with_xor, true> : run<Op, T, C, with_xor, false>;
  return pair ? run<Op, T, C, none, true> : run<Op, T, C, none, false>;
}

template <class T>
Run integers(const Words& words) {
  const std::string& how = words[1];
  if (how == "eq") return form<Equal, T, T>(words);
  if (how == "ne") return form<NotEqual, T, T>(words);
  if (how == "lt" || how == "lo") return form<Less, T, T>(words);
  if (how == "le" || how == "ls") return form<LessOrEqual, T, T>(words);
  if (how == "gt" || how == "hi") return form<Greater, T, T>(words);
  if (how == "ge" || how == "hs") return form<GreaterOrEqual, T, T>(words);
  return nullptr;
}

template <class T, class C>
Run floats(const Words& words) {
  const std::string& how = words[1];
  if (how == "eq") return form<Equal, T, C>(words);
  if (how == "ne") return form<NotEqual, T, C>(words);
  if (how == "lt") return form<Less, T, C>(words);
  if (how == "le") return form<LessOrEqual, T, C>(words);
  if (how == "gt") return form<Greater, T, C>(words);
  if (how == "ge") return form<GreaterOrEqual, T, C>(words);
  if (how == "equ") return form<Or<NotEqual>, T, C>(words);
  if (how == "neu") return form<Or<Equal>, T, C>(words);
  if (how == "ltu") return form<Or<GreaterOrEqual>, T, C>(words);
  if (how == "leu") return form<Or<Greater>, T, C>(words);
  if (how == "gtu") return form<Or<LessOrEqual>, T, C>(words);
  if (how == "geu") return form<Or<Less>, T, C>(words);
  if (how == "num") return form<BothNumbers, T, C>(words);
  if (how == "nan") return form<Or<BothNumbers>, T, C>(words);
  return nullptr;
}

}  // namespace

/// setp, and setp2 where both the result and its opposite are asked for; set of an integer is setp.
Run select_comparison(const Words& words) {
  if (words[0] != "setp" && words[0] != "setp2") return nullptr;
  const std::string& type = words.back();
  if (type == "s32") return integers<int32_t>(words);
  if (type == "u32" || type == "b32") return integers<uint32_t>(words);
  if (type == "s64") return integers<int64_t>(words);
  if (type == "u64" || type == "b64") return integers<uint64_t>(words);
  if (type == "s16") return integers<int16_t>(words);
  if (type == "u16" || type == "b16") return integers<uint16_t>(words);
  if (type == "f32") return floats<float, float>(words);
  if (type == "f64") return floats<double, double>(words);
  if (type == "f16") return floats<F16, float>(words);
  if (type == "bf16") return floats<Bf16, float>(words);
  return nullptr;
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
