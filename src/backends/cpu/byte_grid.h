// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

/// Weights in floats that a tool has rounded to 8 bits.
namespace tenon::cpu {

/// Rows of weights as (byte - zero point) * scale, with a zero point and a scale for each row.
struct ByteGrid {
  std::vector<uint8_t> bytes, zeros;
  std::vector<float> scales;
};

/// The n rows of k weights where that gives all of them, but for the last bit of a float; nullopt where it does not.
std::optional<ByteGrid> byte_grid(const float* weights, int64_t n, int64_t k);

/// The same of the first rows alone, which is soon known.
bool may_be_bytes(const float* weights, int64_t n, int64_t k);

}  // namespace tenon::cpu
