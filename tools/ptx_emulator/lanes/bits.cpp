// SPDX-License-Identifier: Apache-2.0
// Operations on bits, and numbers of any type as they are moved, chosen, put together and taken apart.
#include <algorithm>

#include "each.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

template <class Op>
void four(Warp& w, const Instruction& i) {
  uint32_t* d = w.lanes<uint32_t>(i.at[0]);
  const uint32_t *a = w.lanes<uint32_t>(i.at[1]), *b = w.lanes<uint32_t>(i.at[2]), *c = w.lanes<uint32_t>(i.at[3]),
                 *e = w.lanes<uint32_t>(i.at[4]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = Op::of(a[l], b[l], c[l], e[l]); });
}

struct Copied {
  template <class T>
  static T of(T a) {
    return a;
  }
};
struct Not {
  template <class T>
  static T of(T a) {
    return ~a;
  }
};
struct LogicNot {
  template <class T>
  static T of(T a) {
    return a == 0;
  }
};
struct Ones {
  template <class T>
  static int of(T a) {
    return std::popcount(a);
  }
};
struct Zeros {
  template <class T>
  static int of(T a) {
    return std::countl_zero(a);
  }
};
struct Reversed {
  template <class T>
  static T of(T a) {
    T r = 0;
    for (int at = 0; at < bits_in<T>; ++at) r |= (a >> at & 1) << (bits_in<T> - 1 - at);
    return r;
  }
};
/// Of the first bit that differs from the sign; SHIFT: how far it must go to the left.
template <bool SHIFT>
struct Found {
  template <class T>
  static uint32_t of(T a) {
    const auto bits = static_cast<Unsigned<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
    if (bits == 0) return all_lanes;
    const int zeros = std::countl_zero(bits);
    return static_cast<uint32_t>(SHIFT ? zeros : bits_in<T> - 1 - zeros);
  }
};
struct And {
  template <class T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T of(T a, T b) {
    return a ^ b;
  }
};
struct Left {
  template <class T>
  static T of(T a, uint32_t b) {
    return b < bits_in<T> ? static_cast<T>(a << b) : T{0};
  }
};
struct Right {
  template <class T>
  static T of(T a, uint32_t b) {
    return static_cast<T>(a >> std::min<uint32_t>(b, bits_in<T> - 1) >> (b >= bits_in<T>));
  }
};
struct Chosen {
  template <class T>
  static T of(T a, T b, uint32_t p) {
    return p ? a : b;
  }
};
struct Field {
  template <class T>
  static T of(T a, uint32_t at, uint32_t length) {
    at &= 255, length &= 255;
    if (length == 0) return 0;
    constexpr uint32_t bits = bits_in<T>;
    const auto whole = static_cast<Unsigned<T>>(a);
    const bool sign = std::is_signed_v<T> && (whole >> std::min(at + length - 1, bits - 1) & 1);
    const uint32_t count = std::min(length, at < bits ? bits - at : 0);
    const Unsigned<T> mask = count == bits ? ~Unsigned<T>{0} : (Unsigned<T>{1} << count) - 1;
    return static_cast<T>((count ? whole >> at & mask : 0) | (sign ? ~mask : 0));
  }
};
struct Permuted {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t how) {
    const uint64_t both = a | uint64_t{b} << 32;
    uint32_t result = 0;
    for (int k = 0; k < 4; ++k) {
      const uint32_t which = how >> (4 * k) & 15;
      uint32_t byte = static_cast<uint32_t>(both >> (8 * (which & 7))) & 255;
      if (which & 8) byte = byte & 128 ? 255 : 0;
      result |= byte << (8 * k);
    }
    return result;
  }
};
template <bool LEFT, bool WRAPS>
struct Funnel {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t by = WRAPS ? c & 31 : std::min(c, 32u);
    const uint64_t both = a | uint64_t{b} << 32;
    return static_cast<uint32_t>(LEFT ? both << by >> 32 : both >> by);
  }
};
struct Table {
  static uint32_t of(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (uint32_t k = 0; k < 8; ++k)
      result |= (table >> k & 1 ? all_lanes : 0) & (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return result;
  }
};
struct Inserted {
  template <class T>
  static T of(T a, T b, uint32_t at, uint32_t length) {
    at &= 255, length = std::min<uint32_t>(length & 255, bits_in<T>);
    if (at >= bits_in<T> || length == 0) return b;
    const T mask = (length == bits_in<T> ? ~T{0} : (T{1} << length) - 1) << at;
    return (b & ~mask) | (a << at & mask);
  }
};
template <class T>
void insert(Warp& w, const Instruction& i) {
  T *d = w.lanes<T>(i.at[0]), *a = w.lanes<T>(i.at[1]), *b = w.lanes<T>(i.at[2]);
  const uint32_t *at = w.lanes<uint32_t>(i.at[3]), *length = w.lanes<uint32_t>(i.at[4]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = Inserted::of(a[l], b[l], at[l], length[l]); });
}

/// {a, b, …} of a number, or a number of {a, b, …}.
template <class T, class Part, bool TAKE>
void parts(Warp& w, const Instruction& i) {
  constexpr int count = sizeof(T) / sizeof(Part);
  for_lanes(w.active, [&](int l) {
    T whole = TAKE ? w.lanes<T>(i.at[count])[l] : 0;
    for (int k = 0; k < count; ++k)
      if (TAKE) w.lanes<Part>(i.at[k])[l] = static_cast<Part>(whole >> (k * bits_in<Part>));
      else whole |= static_cast<T>(T{w.lanes<Part>(i.at[k + 1])[l]} << (k * bits_in<Part>));
    if (!TAKE) w.lanes<T>(i.at[0])[l] = whole;
  });
}
template <class T, class Part>
Run parts_of(bool take) {
  return take ? parts<T, Part, true> : parts<T, Part, false>;
}

template <class Op>
Run bits(const std::string& type) {
  return of_type(type, [](auto x) -> Run {
    using T = Unsigned<decltype(x)>;
    return two<Op, T, T, T>;
  });
}
Run funnel(const Words& words) {
  using U = uint32_t;
  const bool wraps = has(words, "wrap");
  if (has(words, "l")) return wraps ? three<Funnel<true, true>, U, U, U, U> : three<Funnel<true, false>, U, U, U, U>;
  return wraps ? three<Funnel<false, true>, U, U, U, U> : three<Funnel<false, false>, U, U, U, U>;
}

}  // namespace

/// "pack" and "unpack" are mov of a list, with the bits of the whole and of a part.
Run select_bits(const Words& words) {
  const std::string &op = words[0], &type = words.back();
  if (op == "pack" || op == "unpack") {
    const bool take = op == "unpack";
    if (words[1] == "32")
      return words[2] == "16" ? parts_of<uint32_t, uint16_t>(take) : parts_of<uint32_t, uint8_t>(take);
    if (words[2] == "32") return parts_of<uint64_t, uint32_t>(take);
    return words[2] == "16" ? parts_of<uint64_t, uint16_t>(take) : nullptr;
  }
  if (op == "and") return bits<And>(type);
  if (op == "or") return bits<Or>(type);
  if (op == "xor") return bits<Xor>(type);
  if (op == "prmt") return words.size() == 2 ? three<Permuted, uint32_t, uint32_t, uint32_t, uint32_t> : nullptr;
  if (op == "shf") return funnel(words);
  if (op == "lop3") return words.size() == 2 ? four<Table> : nullptr;
  return of_type(type, [&](auto x) -> Run {
    using T = decltype(x);
    using U = Unsigned<T>;
    if (op == "mov" || op == "cvta") return one<Copied, U, U>;
    if (op == "selp") return three<Chosen, U, U, U, uint32_t>;
    if (op == "not") return one<Not, U, U>;
    if (op == "cnot") return one<LogicNot, U, U>;
    if (op == "popc") return one<Ones, uint32_t, U>;
    if (op == "clz") return one<Zeros, uint32_t, U>;
    if (op == "brev") return one<Reversed, U, U>;
    if (op == "bfind") return has(words, "shiftamt") ? one<Found<true>, uint32_t, T> : one<Found<false>, uint32_t, T>;
    if (op == "shl") return two<Left, U, U, uint32_t>;
    if (op == "shr") return two<Right, T, T, uint32_t>;
    if constexpr (sizeof(T) >= 4) {
      if (op == "bfe") return three<Field, T, T, uint32_t, uint32_t>;
      if (op == "bfi") return insert<U>;
    }
    return nullptr;
  });
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
