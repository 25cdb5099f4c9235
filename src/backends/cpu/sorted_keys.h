// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

/// Places of floats in the order of these: keys of 64 bits, the float above, its place below.
namespace tenon::cpu {

/// A number that rises with the float. Both zeros have the same, and NaN has the largest.
inline uint32_t rising(float value) {
  if (value != value) return UINT32_MAX;
  const auto bits = std::bit_cast<uint32_t>(value + 0.f);
  return bits >> 31 ? ~bits : bits | 0x80000000;
}

inline uint64_t sort_key(uint32_t order, uint32_t place) { return uint64_t{order} << 32 | place; }
inline uint32_t place_of(uint64_t key) { return static_cast<uint32_t>(key); }

/// Sorts keys, whose places rise, upwards, by their upper halves digit by digit. `spare` is of the same size; what is
/// sorted lies in either.
inline std::span<uint64_t> sorted(std::span<uint64_t> keys, std::span<uint64_t> spare) {
  constexpr size_t few = 64;
  if (keys.size() <= few) {
    std::sort(keys.begin(), keys.end());
    return keys;
  }
  constexpr int digits = 4, bits = 8, values = 1 << bits;
  const auto digit = [](uint64_t key, int at) { return key >> (32 + at * bits) & (values - 1); };
  uint32_t counts[digits][values] = {};
  for (const uint64_t key : keys)
    for (int at = 0; at < digits; ++at) ++counts[at][digit(key, at)];
  for (int at = 0; at < digits; ++at) {
    if (counts[at][digit(keys[0], at)] == keys.size()) continue;  // the same in all
    uint32_t begin = 0;
    for (uint32_t& count : counts[at]) begin += std::exchange(count, begin);
    for (const uint64_t key : keys) spare[counts[at][digit(key, at)]++] = key;
    std::swap(keys, spare);
  }
  return keys;
}

}  // namespace tenon::cpu
