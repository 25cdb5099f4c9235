// SPDX-License-Identifier: Apache-2.0
// ld, st, atom, red and cp.async.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rounding.h"
#include "warp.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

/// Of the active lanes, by the address behind the instruction's numbers.
void find(Warp& w, const Instruction& i, uint32_t place, int bytes, Access access, std::byte** places) {
  uint64_t addresses[lanes_of_warp];
  read_addresses(w, i, place, addresses);
  locate(w, i, i.space, addresses, bytes, access, places);
}

/// Registers of R take numbers of T, with their sign.
template <class R, class T>
void load(Warp& w, const Instruction& i) {
  std::byte* places[lanes_of_warp];
  find(w, i, i.at[i.count], static_cast<int>(i.count * sizeof(T)), Access::read, places);
  for (size_t k = 0; k < i.count; ++k) {
    R* to = w.lanes<R>(i.at[k]);
    for_lanes(w.active, [&](int l) {
      T number;
      std::memcpy(&number, places[l] + k * sizeof(T), sizeof number);
      to[l] = static_cast<R>(number);
    });
  }
}

template <class R, class T>
void store(Warp& w, const Instruction& i) {
  std::byte* places[lanes_of_warp];
  find(w, i, i.at[0], static_cast<int>(i.count * sizeof(T)), Access::write, places);
  for (size_t k = 0; k < i.count; ++k) {
    const R* from = w.lanes<R>(i.at[k + 1]);
    for_lanes(w.active, [&](int l) {
      const auto number = static_cast<T>(from[l]);
      std::memcpy(places[l] + k * sizeof(T), &number, sizeof number);
    });
  }
}

template <class T, class Op, bool GIVES, bool SWAPS>
void atomic(Warp& w, const Instruction& i) {
  uint64_t addresses[lanes_of_warp];
  std::byte* places[lanes_of_warp];
  constexpr int first = GIVES ? 1 : 0;
  read_addresses(w, i, i.at[first], addresses);
  locate(w, i, i.space, addresses, sizeof(T), Access::atomic, places);
  const T *a = w.lanes<T>(i.at[first + 1]), *b = w.lanes<T>(i.at[first + (SWAPS ? 2 : 1)]);
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const int l = std::countr_zero(lanes);
    T old, made;
    std::memcpy(&old, places[l], sizeof old);
    made = Op::of(old, a[l], b[l]);
    std::memcpy(places[l], &made, sizeof made);
    if (GIVES) w.lanes<T>(i.at[0])[l] = old;
  }
}

struct Plus {
  template <class T>
  static T of(T old, T a, T) {
    return static_cast<T>(old + a);
  }
};
struct Least {
  template <class T>
  static T of(T old, T a, T) {
    return std::min(old, a);
  }
};
struct Most {
  template <class T>
  static T of(T old, T a, T) {
    return std::max(old, a);
  }
};
struct And {
  template <class T>
  static T of(T old, T a, T) {
    return old & a;
  }
};
struct Or {
  template <class T>
  static T of(T old, T a, T) {
    return old | a;
  }
};
struct Xor {
  template <class T>
  static T of(T old, T a, T) {
    return old ^ a;
  }
};
struct Exchange {
  template <class T>
  static T of(T, T a, T) {
    return a;
  }
};
struct Swap {
  template <class T>
  static T of(T old, T a, T b) {
    return old == a ? b : old;
  }
};
struct Up {
  template <class T>
  static T of(T old, T a, T) {
    return old >= a ? T{0} : old + 1;
  }
};
struct Down {
  template <class T>
  static T of(T old, T a, T) {
    return old == 0 || old > a ? a : old - 1;
  }
};
/// Two floats of 16 bits in a word.
struct PlusHalves {
  static uint32_t of(uint32_t old, uint32_t a, uint32_t) {
    const auto sum = [](uint32_t x, uint32_t y) {
      return uint32_t{f16_bits(f16_value(static_cast<uint16_t>(x)) + f16_value(static_cast<uint16_t>(y)))};
    };
    return sum(old, a) | sum(old >> 16, a >> 16) << 16;
  }
};

template <class T, class Op, bool SWAPS = false>
Run given(bool gives) {
  return gives ? atomic<T, Op, true, SWAPS> : atomic<T, Op, false, SWAPS>;
}

template <class T>
Run atomic_of(const Words& words, bool gives) {
  if (has(words, "add")) return given<T, Plus>(gives);
  if (has(words, "exch")) return given<T, Exchange>(gives);
  if constexpr (std::is_integral_v<T>) {
    if (has(words, "min")) return given<T, Least>(gives);
    if (has(words, "max")) return given<T, Most>(gives);
    if (has(words, "and")) return given<T, And>(gives);
    if (has(words, "or")) return given<T, Or>(gives);
    if (has(words, "xor")) return given<T, Xor>(gives);
    if (has(words, "cas")) return given<T, Swap, true>(gives);
    if (has(words, "inc")) return given<T, Up>(gives);
    if (has(words, "dec")) return given<T, Down>(gives);
  }
  return nullptr;
}
Run atomics(const Words& words) {
  const bool gives = words[0] == "atom";
  const std::string& type = words.back();
  if (type == "s32") return atomic_of<int32_t>(words, gives);
  if (type == "u32" || type == "b32") return atomic_of<uint32_t>(words, gives);
  if (type == "s64") return atomic_of<int64_t>(words, gives);
  if (type == "u64" || type == "b64") return atomic_of<uint64_t>(words, gives);
  if (type == "b16") return atomic_of<uint16_t>(words, gives);
  if (type == "f32") return atomic_of<float>(words, gives);
  if (type == "f64") return atomic_of<double>(words, gives);
  return type == "f16x2" ? given<uint32_t, PlusHalves>(gives) : nullptr;
}

/// Bytes are there when the thread has waited for them; until then they are no numbers.
constexpr int unfilled = 0xff;

void copy_later(Warp& w, const Instruction& i) {
  uint64_t to[lanes_of_warp], from[lanes_of_warp];
  std::byte* places[lanes_of_warp];
  const int bytes = i.element_bytes;
  for_lanes(w.active, [&](int l) {
    to[l] = (i.narrow_address ? w.lanes<uint32_t>(i.at[0])[l] : w.lanes<uint64_t>(i.at[0])[l]) +
            static_cast<uint64_t>(i.offset);
    from[l] = w.lanes<uint64_t>(i.at[1])[l] + static_cast<uint64_t>(i.target);
  });
  locate(w, i, Space::shared, to, bytes, Access::write, places);
  uint32_t reading = 0;
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const int l = std::countr_zero(lanes);
    const auto read = static_cast<uint8_t>(std::min(w.lanes<uint32_t>(i.at[2])[l], static_cast<uint32_t>(bytes)));
    std::memset(places[l], unfilled, static_cast<size_t>(bytes));
    w.copies.push_back({w.groups[l], static_cast<uint32_t>(to[l]), from[l], static_cast<uint8_t>(l),
                        static_cast<uint8_t>(bytes), read});
    if (read > 0) reading |= 1u << l;
  }
  // Sources are checked now, where the instruction is known; those of no bytes may be anywhere.
  const uint32_t active = std::exchange(w.active, reading);
  if (reading) locate(w, i, Space::global, from, bytes, Access::read, places);
  w.active = active;
}

void close_group(Warp& w, const Instruction&) {
  for_lanes(w.active, [&](int l) { ++w.groups[l]; });
}

/// Copies of all groups but the last `at[0]`; of all that have begun where there is none.
void wait_for_copies(Warp& w, const Instruction& i) {
  const auto left = static_cast<int64_t>(i.offset);
  const auto is_due = [&](const Copy& copy) {
    return (w.active >> copy.lane & 1) && (left < 0 || int64_t{copy.group} + left < int64_t{w.groups[copy.lane]});
  };
  for (const Copy& copy : w.copies) {
    if (!is_due(copy)) continue;
    std::memcpy(w.block->shared + copy.to, reinterpret_cast<const void*>(copy.from), copy.bytes_read);
    std::memset(w.block->shared + copy.to + copy.bytes_read, 0, static_cast<size_t>(copy.bytes - copy.bytes_read));
  }
  std::erase_if(w.copies, is_due);
}

template <class With>
Run element(const std::string& type, const With& with) {
  if (type == "s8") return with(int8_t{});
  if (type == "u8" || type == "b8") return with(uint8_t{});
  if (type == "s16") return with(int16_t{});
  if (type == "u16" || type == "b16" || type == "f16" || type == "bf16") return with(uint16_t{});
  if (type == "s32") return with(int32_t{});
  if (type == "u32" || type == "b32" || type == "f32") return with(uint32_t{});
  if (type == "s64" || type == "u64" || type == "b64" || type == "f64") return with(uint64_t{});
  return nullptr;
}

template <class R>
Run moved(const Words& words, const std::string& type) {
  return element(type, [&](auto x) -> Run {
    using T = decltype(x);
    if constexpr (sizeof(R) < sizeof(T)) return nullptr;
    else return words[0] == "ld" ? load<R, T> : store<R, T>;
  });
}

}  // namespace

/// "ld" and "st" with the bits of their registers behind their own words.
Run select_memory(const Words& words) {
  const std::string& op = words[0];
  if (op == "atom" || op == "red") return atomics(words);
  if (op == "ld" || op == "st") {
    const std::string& type = words[words.size() - 2];
    if (words.back() == "16") return moved<uint16_t>(words, type);
    return words.back() == "32" ? moved<uint32_t>(words, type) : moved<uint64_t>(words, type);
  }
  if (op != "cp" || words[1] != "async" || words.size() < 3) return nullptr;
  if (words[2] == "commit_group") return close_group;
  if (words[2] == "wait_group" || words[2] == "wait_all") return wait_for_copies;
  return words[2] == "ca" || words[2] == "cg" ? copy_later : nullptr;
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
