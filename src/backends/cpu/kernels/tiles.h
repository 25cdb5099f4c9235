// SPDX-License-Identifier: Apache-2.0
// The tile instructions. Only files built by tenon_tile_sources include this. Registers 0 to 3 hold sums of 16 columns,
// 4 and 5 rows of inputs, 6 and 7 weights: one row for each 32 bits of the inputs' rows.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

constexpr int kTileRows = 16, kTileColumns = 16, kTileBytes = 64;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

// For inputs of that many rows and of that many bytes, a multiple of 4, in each.
inline void configure_tiles(int rows, int bytes) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.rows[tile] = static_cast<uint8_t>(tile < 6 ? rows : bytes / 4);
    config.bytes[tile] = static_cast<uint16_t>(tile == 4 || tile == 5 ? bytes : kTileBytes);
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}
inline void release_tiles() { __asm__ volatile("tilerelease" ::: "memory"); }

template <int kTile>
TENON_INLINE void load_tile(const void* p, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
TENON_INLINE void store_tile(void* p, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
TENON_INLINE void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
// Unsigned inputs times signed weights, four bytes at a time; or two bfloat16 each, added up as f32.
enum class TileDot : uint8_t { int8, bf16 };
template <TileDot kDot, int kSums, int kInputs, int kWeights>
TENON_INLINE void add_tile_dots() {
  if constexpr (kDot == TileDot::int8)
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs), "i"(kWeights));
  else
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kInputs), "i"(kWeights));
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
