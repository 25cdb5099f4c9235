// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

/// Weights of tenon:WeightOnlyMatMul: each output's K weights in blocks of `block`, the last filled with zeros, as
/// unsigned integers of 4 bits, the lower half of a byte first, or 8 bits: u8 [outputs][blocks][bytes of a block].
/// A weight is (integer - zero point) * scale, with f32 or f16 scales [outputs][blocks] and u8 zero points of the same
/// sizes, or half of the range where there are none.
namespace tenon::ops::weight_only {

enum Input : uint8_t { data, weights, bias, residual, scales, zero_points };

constexpr int64_t block_bytes(int64_t block, int64_t bits) { return block * bits / 8; }
constexpr int middle(int64_t bits) { return 1 << (bits - 1); }
/// Integer `at` of an output's weights, where `row` begins.
constexpr int integer(const uint8_t* row, int64_t at, int64_t bits) {
  return bits == 8 ? row[at] : row[at / 2] >> at % 2 * 4 & 15;
}

}  // namespace tenon::ops::weight_only
