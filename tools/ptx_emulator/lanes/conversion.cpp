// SPDX-License-Identifier: Apache-2.0
// cvt: between numbers of all sizes, with PTX's roundings and clamps.
#include <cstring>
#include <limits>
#include <utility>

#include "rounding.h"
#include "warp.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

// A conversion is read and written by functions of their own, as all pairs of types would be hundreds of loops.

/// The integers of type S in registers of FROM; a u64 as the i64 of its bits.
template <class From, class S>
[[gnu::noinline]] void read_integers(Warp& w, const Instruction& i, int64_t* x) {
  const From* a = w.lanes<From>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) { x[l] = static_cast<int64_t>(static_cast<S>(a[l])); });
}
/// Floats of any size, rounded to integers.
template <class S, Rounding R>
[[gnu::noinline]] void read_rounded(Warp& w, const Instruction& i, double* x) {
  const S* a = w.lanes<S>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) {
    if constexpr (sizeof(S) == 2) x[l] = to_integer(f16_value(a[l]), R);
    else x[l] = to_integer(static_cast<double>(a[l]), R);
  });
}

/// Integers of X to those of type D in registers of TO, clamped or else cut.
template <class To, class D, class X>
[[gnu::noinline]] void write_integers(Warp& w, const Instruction& i, const int64_t* numbers, bool clamps) {
  To* d = w.lanes<To>(i.at[0]);
  using L = std::numeric_limits<D>;
  if (!clamps) {
    for_lanes(lanes_for_results(w), [&](int l) { d[l] = static_cast<To>(static_cast<D>(numbers[l])); });
    return;
  }
  for_lanes(lanes_for_results(w), [&](int l) {
    const auto x = static_cast<X>(numbers[l]);
    const D result = std::cmp_less(x, L::min())      ? L::min()
                     : std::cmp_greater(x, L::max()) ? L::max()
                                                     : static_cast<D>(x);
    d[l] = static_cast<To>(result);
  });
}
/// The same of floats, which are clamped; NaN is 0.
template <class To, class D>
[[gnu::noinline]] void write_rounded(Warp& w, const Instruction& i, const double* numbers) {
  To* d = w.lanes<To>(i.at[0]);
  using L = std::numeric_limits<D>;
  constexpr double least = static_cast<double>(L::min()), beyond = static_cast<double>(L::max() / 2 + 1) * 2;
  for_lanes(lanes_for_results(w), [&](int l) {
    const double x = numbers[l];
    const D result = x != x ? D{0} : x < least ? L::min() : x >= beyond ? L::max() : static_cast<D>(x);
    d[l] = static_cast<To>(result);
  });
}
/// Integers of X to floats of any size.
template <class S, class X, Rounding R>
[[gnu::noinline]] void write_floats(Warp& w, const Instruction& i, const int64_t* numbers) {
  S* d = w.lanes<S>(i.at[0]);
  for_lanes(lanes_for_results(w), [&](int l) {
    const auto x = static_cast<X>(numbers[l]);
    if constexpr (sizeof(S) == 8) d[l] = static_cast<S>(x);
    else if constexpr (sizeof(S) == 2)
      d[l] = static_cast<S>(float16_bits(static_cast<double>(x), f16_format, R, false));
    else if constexpr (R == Rounding::nearest) d[l] = static_cast<S>(x);
    else d[l] = f32_of(static_cast<double>(x), R);
  });
}

/// What holds each number of type S: only u64 is not an i64.
template <class S>
using Integer = std::conditional_t<std::is_same_v<S, uint64_t>, uint64_t, int64_t>;

/// Between registers of FROM and TO; S is the source's type, D the result's.
template <class To, class D, class From, class S, bool CLAMPS>
void integer_to_integer(Warp& w, const Instruction& i) {
  int64_t x[lanes_of_warp];
  read_integers<From, S>(w, i, x);
  write_integers<To, D, Integer<S>>(w, i, x, CLAMPS);
}
template <class To, class D, class S, Rounding R>
void float_to_integer(Warp& w, const Instruction& i) {
  double x[lanes_of_warp];
  read_rounded<S, R>(w, i, x);
  write_rounded<To, D>(w, i, x);
}
template <class S, class D, class From, Rounding R>
void integer_to_float(Warp& w, const Instruction& i) {
  int64_t x[lanes_of_warp];
  read_integers<From, D>(w, i, x);
  write_floats<S, Integer<D>, R>(w, i, x);
}

void f32_of_f16(Warp& w, const Instruction& i) {
  float* d = w.lanes<float>(i.at[0]);
  const uint16_t* a = w.lanes<uint16_t>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = f16_value(a[l]); });
}
void f32_of_bf16(Warp& w, const Instruction& i) {
  float* d = w.lanes<float>(i.at[0]);
  const uint16_t* a = w.lanes<uint16_t>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = bf16_value(a[l]); });
}
void f64_of_f32(Warp& w, const Instruction& i) {
  double* d = w.lanes<double>(i.at[0]);
  const float* a = w.lanes<float>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = a[l]; });
}
template <Rounding R>
void f32_of_f64(Warp& w, const Instruction& i) {
  float* d = w.lanes<float>(i.at[0]);
  const double* a = w.lanes<double>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = f32_of(a[l], R); });
}
/// f32 to an integer that stays a float.
template <Rounding R, bool SAT>
void f32_of_f32(Warp& w, const Instruction& i) {
  float *d = w.lanes<float>(i.at[0]), *a = w.lanes<float>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) {
    const float x = a[l];
    const auto whole = static_cast<float>(to_integer(x, R));
    d[l] = SAT ? (x > 0 ? (x < 1 ? x : 1.f) : 0.f) : whole;
  });
}
void same_f32(Warp& w, const Instruction& i) {
  float *d = w.lanes<float>(i.at[0]), *a = w.lanes<float>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = a[l]; });
}

/// f32 to 16 bits, to nearest.
template <uint16_t (*BITS)(float), bool RELU, int COUNT>
void f16_of_f32(Warp& w, const Instruction& i) {
  uint16_t* d = w.lanes<uint16_t>(i.at[0]);
  const float *high = w.lanes<float>(i.at[1]), *low = w.lanes<float>(i.at[COUNT]);
  const auto bits = [](float x) { return BITS(RELU && x < 0 ? 0.f : x); };
  for_lanes(lanes_for_results(w), [&](int l) {
    if (COUNT == 1) d[l] = bits(low[l]);
    else d[2 * l] = bits(low[l]), d[2 * l + 1] = bits(high[l]);
  });
}
template <int FORMAT>
constexpr Format format() {
  return FORMAT == 0 ? f16_format : FORMAT == 1 ? bf16_format : FORMAT == 2 ? e4m3_format : e5m2_format;
}
/// The same by another rounding, and all to 8 bits.
template <int FORMAT, Rounding R, bool SAT, bool RELU, int COUNT, class D>
void narrow(Warp& w, const Instruction& i) {
  D* d = w.lanes<D>(i.at[0]);
  const float *high = w.lanes<float>(i.at[1]), *low = w.lanes<float>(i.at[COUNT]);
  constexpr int bits = FORMAT < 2 ? 16 : 8;
  const auto of = [](float x) { return float16_bits(RELU && x < 0 ? 0.f : x, format<FORMAT>(), R, SAT); };
  for_lanes(lanes_for_results(w),
            [&](int l) { d[l] = static_cast<D>(of(low[l]) | (COUNT == 2 ? of(high[l]) << bits : 0)); });
}
/// Two floats of 8 bits to two of 16, which hold them exactly.
template <int FORMAT>
void widen_pair(Warp& w, const Instruction& i) {
  uint32_t* d = w.lanes<uint32_t>(i.at[0]);
  const uint16_t* a = w.lanes<uint16_t>(i.at[1]);
  const auto of = [](uint32_t byte) {
    return float16_bits(value_of(byte & 255, format<FORMAT>()), f16_format, Rounding::nearest, false);
  };
  for_lanes(lanes_for_results(w), [&](int l) { d[l] = of(a[l]) | of(a[l] >> 8) << 16; });
}
/// 10 bits of mantissa.
template <bool AWAY>
void tf32_of_f32(Warp& w, const Instruction& i) {
  uint32_t *d = w.lanes<uint32_t>(i.at[0]), *a = w.lanes<uint32_t>(i.at[1]);
  for_lanes(lanes_for_results(w), [&](int l) {
    const uint32_t x = a[l], body = x & 0x7fffffffu;
    const uint32_t more = AWAY ? 0x1000u : 0xfffu + (x >> 13 & 1u);
    d[l] = body > 0x7f800000u ? 0x7fffffffu : body == 0x7f800000u ? x : (x + more) & ~0x1fffu;
  });
}
/// Two integers, clamped, before those of another word.
template <class T>
void pack(Warp& w, const Instruction& i) {
  uint32_t* d = w.lanes<uint32_t>(i.at[0]);
  const int32_t *a = w.lanes<int32_t>(i.at[1]), *b = w.lanes<int32_t>(i.at[2]);
  const uint32_t* c = w.lanes<uint32_t>(i.at[3]);
  using L = std::numeric_limits<T>;
  const auto of = [](int32_t x) {
    return static_cast<uint32_t>(static_cast<std::make_unsigned_t<T>>(x < L::min()   ? L::min()
                                                                      : x > L::max() ? L::max()
                                                                                     : x));
  };
  constexpr int bits = sizeof(T) * 8;
  for_lanes(lanes_for_results(w), [&](int l) {
    const uint32_t both = of(b[l]) | of(a[l]) << bits;
    d[l] = bits == 8 ? both | c[l] << 16 : both;
  });
}

template <class With>
Run integer(const std::string& type, const With& with) {
  if (type == "s8") return with(int8_t{});
  if (type == "u8") return with(uint8_t{});
  if (type == "s16") return with(int16_t{});
  if (type == "u16") return with(uint16_t{});
  if (type == "s32") return with(int32_t{});
  if (type == "u32") return with(uint32_t{});
  if (type == "s64") return with(int64_t{});
  if (type == "u64") return with(uint64_t{});
  return nullptr;
}
/// A register of these bits.
template <class With>
Run of_bits(const std::string& bits, const With& with) {
  if (bits == "16") return with(uint16_t{});
  return bits == "32" ? with(uint32_t{}) : bits == "64" ? with(uint64_t{}) : Run{};
}

Rounding rounding_of(const Words& words) {
  if (has(words, "rzi") || has(words, "rz")) return Rounding::zero;
  if (has(words, "rmi") || has(words, "rm")) return Rounding::down;
  if (has(words, "rpi") || has(words, "rp")) return Rounding::up;
  return Rounding::nearest;
}
template <class With>
Run rounded(const Words& words, const With& with) {
  switch (rounding_of(words)) {
    case Rounding::zero: return with(std::integral_constant<Rounding, Rounding::zero>{});
    case Rounding::down: return with(std::integral_constant<Rounding, Rounding::down>{});
    case Rounding::up: return with(std::integral_constant<Rounding, Rounding::up>{});
    default: return with(std::integral_constant<Rounding, Rounding::nearest>{});
  }
}

/// Registers hold signed results extended: a wider register is filled with the sign.
Run integers(const std::string& to, const std::string& from, const Words& bits, bool clamps) {
  return integer(to, [&](auto d) -> Run {
    return integer(from, [&](auto s) -> Run {
      return of_bits(bits[0], [&](auto to_register) -> Run {
        return of_bits(bits[1], [&](auto from_register) -> Run {
          using D = decltype(d);
          using S = decltype(s);
          using To = decltype(to_register);
          using From = decltype(from_register);
          if constexpr (sizeof(To) < sizeof(D) || sizeof(From) < sizeof(S)) return nullptr;
          else return clamps ? integer_to_integer<To, D, From, S, true> : integer_to_integer<To, D, From, S, false>;
        });
      });
    });
  });
}

Run to_integer_of(const std::string& to, const std::string& from, const Words& words, const std::string& bits) {
  return integer(to, [&](auto d) -> Run {
    using D = decltype(d);
    return of_bits(bits, [&](auto to_register) -> Run {
      using To = decltype(to_register);
      return rounded(words, [&](auto r) -> Run {
        if constexpr (sizeof(To) < sizeof(D)) return nullptr;
        else if (from == "f32") return float_to_integer<To, D, float, r()>;
        else if (from == "f64") return float_to_integer<To, D, double, r()>;
        else return from == "f16" ? float_to_integer<To, D, uint16_t, r()> : Run{};
      });
    });
  });
}

Run to_float_of(const std::string& to, const std::string& from, const Words& words, const std::string& bits) {
  return integer(from, [&](auto s) -> Run {
    using S = decltype(s);
    return of_bits(bits, [&](auto from_register) -> Run {
      using From = decltype(from_register);
      return rounded(words, [&](auto r) -> Run {
        if constexpr (sizeof(From) < sizeof(S)) return nullptr;
        else if (to == "f32") return integer_to_float<float, S, From, r()>;
        else if (to == "f64") return integer_to_float<double, S, From, r()>;
        else return to == "f16" ? integer_to_float<uint16_t, S, From, r()> : Run{};
      });
    });
  });
}

template <int FORMAT, int COUNT, class D, bool SAT>
Run bits16_of(const Words& words) {
  const bool relu = has(words, "relu");
  if (rounding_of(words) == Rounding::zero)
    return relu ? narrow<FORMAT, Rounding::zero, SAT, true, COUNT, D>
                : narrow<FORMAT, Rounding::zero, SAT, false, COUNT, D>;
  return relu ? narrow<FORMAT, Rounding::nearest, SAT, true, COUNT, D>
              : narrow<FORMAT, Rounding::nearest, SAT, false, COUNT, D>;
}
template <uint16_t (*BITS)(float), int FORMAT, int COUNT, class D>
Run half_of(const Words& words) {
  if (has(words, "satfinite")) return bits16_of<FORMAT, COUNT, D, true>(words);
  if (rounding_of(words) == Rounding::zero) return bits16_of<FORMAT, COUNT, D, false>(words);
  return has(words, "relu") ? f16_of_f32<BITS, true, COUNT> : f16_of_f32<BITS, false, COUNT>;
}

Run floats(const std::string& to, const std::string& from, const Words& words) {
  if (to == "f32" && from == "f16") return f32_of_f16;
  if (to == "f32" && from == "bf16") return f32_of_bf16;
  if (to == "f64" && from == "f32") return f64_of_f32;
  if (to == "f32" && from == "f64") return rounded(words, [](auto r) -> Run { return f32_of_f64<r()>; });
  if (to == "f16x2" && from == "e4m3x2") return widen_pair<2>;
  if (to == "f16x2" && from == "e5m2x2") return widen_pair<3>;
  if (from != "f32") return nullptr;
  if (to == "f32") {
    if (has(words, "sat")) return f32_of_f32<Rounding::nearest, true>;
    const bool is_rounded = has(words, "rni") || has(words, "rzi") || has(words, "rmi") || has(words, "rpi");
    if (!is_rounded) return same_f32;
    return rounded(words, [](auto r) -> Run { return f32_of_f32<r(), false>; });
  }
  if (to == "f16") return half_of<f16_bits, 0, 1, uint16_t>(words);
  if (to == "bf16") return half_of<bf16_bits, 1, 1, uint16_t>(words);
  if (to == "f16x2") return half_of<f16_bits, 0, 2, uint32_t>(words);
  if (to == "bf16x2") return half_of<bf16_bits, 1, 2, uint32_t>(words);
  if (to == "e4m3x2") return bits16_of<2, 2, uint16_t, true>(words);
  if (to == "e5m2x2") return bits16_of<3, 2, uint16_t, true>(words);
  if (to == "tf32") return has(words, "rna") ? tf32_of_f32<true> : tf32_of_f32<false>;
  return nullptr;
}

}  // namespace

/// "cvt" with the bits of the result's and the source's registers behind its own words.
Run select_conversion(const Words& given) {
  if (given[0] != "cvt" || given.size() < 5) return nullptr;
  const Words bits(given.end() - 2, given.end()), words(given.begin(), given.end() - 2);
  if (has(words, "pack")) {
    if (has(words, "u8")) return pack<uint8_t>;
    if (has(words, "s8")) return pack<int8_t>;
    return has(words, "u16") ? pack<uint16_t> : has(words, "s16") ? pack<int16_t> : Run{};
  }
  const std::string &to = words[words.size() - 2], &from = words.back();
  const auto is_integer = [](const std::string& type) { return type[0] == 's' || type[0] == 'u'; };
  if (is_integer(to))
    return is_integer(from) ? integers(to, from, bits, has(words, "sat")) : to_integer_of(to, from, words, bits[0]);
  return is_integer(from) ? to_float_of(to, from, words, bits[1]) : floats(to, from, words);
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
