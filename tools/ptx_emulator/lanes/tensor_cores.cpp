// SPDX-License-Identifier: Apache-2.0
// mma.sync, ldmatrix and movmatrix. Lane l holds row or column l / 4 of a fragment, and of it what stands l % 4 words
// on.
#include <array>
#include <cstring>
#include <type_traits>

#include "rounding.h"
#include "warp.h"

namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE {
namespace {

constexpr int columns = 8;

/// Numbers of a register stand in memory as in the matrix: of a row of A, or a column of B, four lanes' side by side.
struct F16 {
  using Stored = uint16_t;
  static float of(uint16_t bits) { return f16_value(bits); }
};
struct Bf16 {
  using Stored = uint16_t;
  static float of(uint16_t bits) { return bf16_value(bits); }
};
/// The hardware looks at 10 bits of mantissa.
struct Tf32 {
  using Stored = uint32_t;
  static float of(uint32_t bits) { return std::bit_cast<float>(bits & ~0x1fffu); }
};
template <class T>
struct Byte {
  using Stored = T;
  static int32_t of(T byte) { return byte; }
};
template <int FORMAT>
struct Float8 {
  using Stored = uint8_t;
  static float of(uint8_t bits) {
    static const auto values = [] {
      std::array<float, 256> list;
      for (uint32_t at = 0; at < 256; ++at)
        list[at] = static_cast<float>(value_of(at, FORMAT == 0 ? e4m3_format : e5m2_format));
      return list;
    }();
    return values[bits];
  }
};

/// Sums of f32 or s32, or of f16 that are kept in f32 meanwhile (HALVES).
template <class A, class B, int ROWS, int DEPTH, bool HALVES>
void multiply(Warp& w, const Instruction& i) {
  using Sum = decltype(A::of({}));
  constexpr int per = 4 / sizeof(typename A::Stored), in_row = 4 * per;  // numbers of a word, of a row in a register
  constexpr int blocks = ROWS / 8, steps = DEPTH / in_row, a_words = blocks * steps, b_words = steps;
  constexpr int words = HALVES ? blocks : 2 * blocks;  // of sums
  static_assert(words * 2 + a_words + b_words <= most_operands);
  if (w.active != all_lanes) throw Fault{illegal_instruction, "a product of fragments by a part of the warp"};
  Sum a[a_words][columns * in_row], b[DEPTH][columns], sums[ROWS][columns];
  for (int at = 0; at < a_words; ++at) {
    const auto* from = w.lanes<typename A::Stored>(i.at[words + at]);
    for (int k = 0; k < columns * in_row; ++k) a[at][k] = A::of(from[k]);
  }
  for (int at = 0; at < b_words; ++at) {
    const auto* from = w.lanes<typename B::Stored>(i.at[words + a_words + at]);
    for (int k = 0; k < in_row; ++k)
      for (int n = 0; n < columns; ++n) b[at * in_row + k][n] = B::of(from[n * in_row + k]);
  }
  for (int at = 0; at < words; ++at) {
    const uint32_t* from = w.lanes<uint32_t>(i.at[words + a_words + b_words + at]);
    for (int l = 0; l < lanes_of_warp; ++l) {
      Sum* row = sums[l / 4 + (HALVES ? at : at / 2) * 8] + l % 4 * 2;
      if constexpr (HALVES) row[0] = f16_value(from[l] & 0xffff), row[1] = f16_value(from[l] >> 16);
      else row[at % 2] = std::bit_cast<Sum>(from[l]);
    }
  }
  for (int m = 0; m < ROWS; ++m)
    for (int k = 0; k < DEPTH; ++k) {
      const Sum factor = a[k / in_row * blocks + m / 8][m % 8 * in_row + k % in_row];
      for (int n = 0; n < columns; ++n) sums[m][n] += factor * b[k][n];
    }
  for (int at = 0; at < words; ++at) {
    uint32_t* to = w.lanes<uint32_t>(i.at[at]);
    for (int l = 0; l < lanes_of_warp; ++l) {
      const Sum* row = sums[l / 4 + (HALVES ? at : at / 2) * 8] + l % 4 * 2;
      if constexpr (HALVES) to[l] = f16_bits(row[0]) | uint32_t{f16_bits(row[1])} << 16;
      else to[l] = std::bit_cast<uint32_t>(row[at % 2]);
    }
  }
}

/// By the types of the result, of both factors and of what is added.
Run product(const std::string& shape, const std::string& d, const std::string& a, const std::string& b) {
  const bool halves = d == "f16";
  if (a == "f16" && b == "f16") {
    if (shape == "m16n8k16") return halves ? multiply<F16, F16, 16, 16, true> : multiply<F16, F16, 16, 16, false>;
    if (shape == "m16n8k8") return halves ? multiply<F16, F16, 16, 8, true> : multiply<F16, F16, 16, 8, false>;
  }
  if (a == "bf16" && b == "bf16") {
    if (shape == "m16n8k16") return multiply<Bf16, Bf16, 16, 16, false>;
    if (shape == "m16n8k8") return multiply<Bf16, Bf16, 16, 8, false>;
  }
  if (a == "tf32" && b == "tf32") {
    if (shape == "m16n8k8") return multiply<Tf32, Tf32, 16, 8, false>;
    if (shape == "m16n8k4") return multiply<Tf32, Tf32, 16, 4, false>;
  }
  if (shape == "m16n8k32" && a == "e4m3" && b == "e4m3" && !halves)
    return multiply<Float8<0>, Float8<0>, 16, 32, false>;
  if (shape == "m16n8k32" && a == "e5m2" && b == "e5m2" && !halves)
    return multiply<Float8<1>, Float8<1>, 16, 32, false>;
  return nullptr;
}

template <class A, class B>
Run bytes(const std::string& shape) {
  if (shape == "m16n8k32") return multiply<A, B, 16, 32, false>;
  if (shape == "m16n8k16") return multiply<A, B, 16, 16, false>;
  return shape == "m8n8k16" ? multiply<A, B, 8, 16, false> : Run{};
}

/// mma.sync.aligned.SHAPE.row.col[.satfinite].D.A.B.C
Run products(const Words& words) {
  if (words.size() != 10 || words[4] != "row" || words[5] != "col") return nullptr;
  const std::string &shape = words[3], &a = words[7], &b = words[8];
  using Signed = Byte<int8_t>;
  using Unsigned = Byte<uint8_t>;
  if (a == "s8") return b == "s8" ? bytes<Signed, Signed>(shape) : bytes<Signed, Unsigned>(shape);
  if (a == "u8") return b == "s8" ? bytes<Unsigned, Signed>(shape) : bytes<Unsigned, Unsigned>(shape);
  return product(shape, words[6], a, b);
}

/// Lanes 8 m to 8 m + 7 have the addresses of matrix m's rows.
template <bool TURNED>
void load_matrices(Warp& w, const Instruction& i) {
  if (w.active != all_lanes) throw Fault{illegal_instruction, "matrices are loaded by a part of the warp"};
  uint64_t addresses[lanes_of_warp];
  std::byte* rows[lanes_of_warp];
  read_addresses(w, i, i.at[i.count], addresses);
  constexpr int row_bytes = 16;
  if (i.count < 4) w.active = (1u << (8 * i.count)) - 1;
  locate(w, i, Space::shared, addresses, row_bytes, Access::read, rows);
  w.active = all_lanes;
  for (int m = 0; m < i.count; ++m) {
    uint32_t* to = w.lanes<uint32_t>(i.at[m]);
    for (int row = 0; row < 8 && !TURNED; ++row) std::memcpy(to + 4 * row, rows[8 * m + row], row_bytes);
    for (int l = 0; l < lanes_of_warp && TURNED; ++l) {
      uint16_t pair[2];
      for (int k = 0; k < 2; ++k) {
        std::memcpy(pair + k, rows[8 * m + l % 4 * 2 + k] + 2 * (l / 4), sizeof *pair);
      }
      to[l] = pair[0] | uint32_t{pair[1]} << 16;
    }
  }
}

void turn_matrix(Warp& w, const Instruction& i) {
  if (w.active != all_lanes) throw Fault{illegal_instruction, "a matrix is turned by a part of the warp"};
  const uint32_t* from = w.lanes<uint32_t>(i.at[1]);
  uint16_t numbers[8][8];
  for (int l = 0; l < lanes_of_warp; ++l)
    for (int k = 0; k < 2; ++k) numbers[l / 4][l % 4 * 2 + k] = static_cast<uint16_t>(from[l] >> (16 * k));
  uint32_t* to = w.lanes<uint32_t>(i.at[0]);
  for (int l = 0; l < lanes_of_warp; ++l)
    to[l] = numbers[l % 4 * 2][l / 4] | uint32_t{numbers[l % 4 * 2 + 1][l / 4]} << 16;
}

}  // namespace

Run select_tensor_cores(const Words& words) {
  if (words[0] == "mma") return products(words);
  if (words[0] == "ldmatrix" && has(words, "m8n8") && words.back() == "b16")
    return has(words, "trans") ? load_matrices<true> : load_matrices<false>;
  return words[0] == "movmatrix" ? turn_matrix : nullptr;
}

}  // namespace tenon::ptx_emulator::TENON_ISA_NAMESPACE
