// SPDX-License-Identifier: Apache-2.0
// Arithmetic of integers.
#include <algorithm>

#include "each.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
  return static_cast<T>(a / b);
}

struct Negated {
  template <class T>
  static T of(T a) {
    return static_cast<T>(Unsigned<T>{0} - static_cast<Unsigned<T>>(a));
  }
};
struct Size {
  template <class T>
  static T of(T a) {
    return a < 0 ? Negated::of(a) : a;
  }
};
struct Difference {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct Low {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct High {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(Wide<T>(a) * Wide<T>(b) >> bits_in<T>);
  }
};
struct Whole {
  template <class T>
  static Wide<T> of(T a, T b) {
    return Wide<T>(a) * Wide<T>(b);
  }
};
struct Quotient {
  template <class T>
  static T of(T a, T b) {
    return quotient(a, b);
  }
};
struct Rest {
  template <class T>
  static T of(T a, T b) {
    return b == 0 ? a : Difference::of(a, Low::of(quotient(a, b), b));
  }
};
template <class Product>
struct Plus {
  template <class T, class C>
  static C of(T a, T b, C c) {
    return Sum::of(static_cast<C>(Product::of(a, b)), c);
  }
};
struct Far {
  template <class T>
  static T of(T a, T b, T c) {
    return Sum::of(c, static_cast<T>(a < b ? b - a : a - b));
  }
};
template <class A, class B>
struct Dot {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    for (int k = 0; k < 32; k += 8)
      c += static_cast<uint32_t>(int{static_cast<A>(a >> k)} * int{static_cast<B>(b >> k)});
    return c;
  }
};

template <class Op>
Run pair(const std::string& type) {
  return of_type(type, [](auto x) -> Run {
    using T = decltype(x);
    return two<Op, T, T, T>;
  });
}
/// mul and mad.
Run product(const Words& words, bool adds) {
  return of_type(words.back(), [&](auto x) -> Run {
    using T = decltype(x);
    if (has(words, "lo")) return adds ? three<Plus<Low>, T, T, T, T> : two<Low, T, T, T>;
    if (has(words, "hi")) return adds ? three<Plus<High>, T, T, T, T> : two<High, T, T, T>;
    if constexpr (sizeof(T) < 8)
      if (has(words, "wide")) return adds ? three<Plus<Whole>, Wide<T>, T, T, Wide<T>> : two<Whole, Wide<T>, T, T>;
    return nullptr;
  });
}
Run dot(const Words& words) {
  const bool a = words[1] == "s32", b = words[2] == "s32";
  if (a)
    return b ? three<Dot<int8_t, int8_t>, uint32_t, uint32_t, uint32_t, uint32_t>
             : three<Dot<int8_t, uint8_t>, uint32_t, uint32_t, uint32_t, uint32_t>;
  return b ? three<Dot<uint8_t, int8_t>, uint32_t, uint32_t, uint32_t, uint32_t>
           : three<Dot<uint8_t, uint8_t>, uint32_t, uint32_t, uint32_t, uint32_t>;
}

}  // namespace

Run select_integers(const Words& words) {
  const std::string &op = words[0], &type = words.back();
  if (type[0] == 'f' || type.starts_with("bf") || has(words, "cc") || has(words, "sat")) return nullptr;
  if (op == "add") return pair<Sum>(type);
  if (op == "sub") return pair<Difference>(type);
  if (op == "mul") return product(words, false);
  if (op == "mad") return product(words, true);
  if (op == "div") return pair<Quotient>(type);
  if (op == "rem") return pair<Rest>(type);
  if (op == "min") return pair<Least>(type);
  if (op == "max") return pair<Most>(type);
  if (op == "dp4a") return dot(words);
  return of_type(type, [&](auto x) -> Run {
    using T = decltype(x);
    if (op == "neg") return one<Negated, T, T>;
    if (op == "abs") return one<Size, T, T>;
    return op == "sad" ? three<Far, T, T, T, T> : Run{};
  });
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
