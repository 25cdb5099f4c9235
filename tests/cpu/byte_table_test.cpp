// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/byte_table.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tenon::cpu {
namespace {

/// Lines of every width up to two vectors, apart from each other, and nothing between them is written.
void check(ByteTable look_up) {
  std::mt19937 random(1);
  std::vector<uint8_t> table(256);
  for (uint8_t& entry : table) entry = static_cast<uint8_t>(random());
  constexpr int64_t from_pitch = 150, to_pitch = 140, lines = 7;
  std::vector<uint8_t> from(from_pitch * lines);
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(random());
  for (int64_t width = 1; width <= 130; ++width) {
    std::vector<uint8_t> to(to_pitch * lines, 77), expected = to;
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t at = 0; at < width; ++at)
        expected[static_cast<size_t>(line * to_pitch + at)] = table[from[static_cast<size_t>(line * from_pitch + at)]];
    look_up({to.data(), to_pitch, from.data(), from_pitch, lines, width}, table.data());
    EXPECT_EQ(to, expected) << width;
  }
}

TEST(ByteTable, GivesItsEntries) {
  check(portable::byte_table);
  if (detect_isa() >= Isa::avx2) check(avx2::byte_table);
  if (detect_isa() >= Isa::avx512) check(avx512::byte_table);
  if (has_byte_permutes(Isa::avx512)) check(avx512::byte_table_permuted);
}

}  // namespace
}  // namespace tenon::cpu
