// SPDX-License-Identifier: Apache-2.0
// Products of floats and weights of 4 or 8 bits in blocks, which are cast in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

// Weights in panels of as many outputs as two vectors have lanes; for each block of K its scales (f32 or f16), its zero
// points less the middle of the range (i8) where there are any, and its integers: of 8 bits, less that middle, a row of
// bytes for each step of K; of 4 bits four bytes for each output and eight steps, the first four in their lower halves.
struct BlockWeights {
  int64_t n, k, block;
  int bits;
  bool f16_scales, has_zeros;
  const std::byte* packed;
};

// As they are given: integers and sizes of ops/weight_only.h.
struct GivenBlocks {
  const uint8_t* integers;
  const float* scales;
  const uint8_t* zeros;  // or null
};

constexpr int64_t kMostRows = 4;  // multiplied together

// A row as integers, for weights of 4 bits: each block's floats are a number of 23 bits times the block's step, a power
// of two, and such a number is three signed bytes, the lowest first.
struct FixedRow {
  int8_t* bytes;  // for eight steps of K eight of each kind; blocks are whole eights
  int32_t* sums;  // of each block, by kind
  float* steps;
};
constexpr int kKinds = 3;

struct BlockWeightOps {
  int columns;  // of a panel
  // c[rows][n] = a[rows][k] * weights of panels [begin, end); sums[rows][blocks] are the sums of a over each block and
  // wanted where there are zero points; rows of c have a pitch in floats and room for n.
  void (*multiply)(const BlockWeights&, const float* a, int64_t lda, int64_t rows, const float* sums, float* c,
                   int64_t ldc, int64_t begin, int64_t end);
  // The floats of one panel, [k][columns].
  void (*cast)(const BlockWeights&, int64_t panel, float* to);
  // c[rows][n] of the columns of one panel, given those floats.
  void (*multiply_floats)(const BlockWeights&, const float* a, int64_t lda, int64_t rows, const float* floats, float* c,
                          int64_t ldc, int64_t panel);
  // Fills a row, but for one with what is not finite: returns false. Null where there is no such kernel.
  bool (*fix)(const BlockWeights&, const float* a, const FixedRow& to);
  // c[n] = row * weights of 4 bits of panels [begin, end); `dots`: where has_int8_dot.
  void (*multiply_fixed)(const BlockWeights&, const FixedRow&, bool dots, float* c, int64_t begin, int64_t end);
};

namespace portable {
extern const BlockWeightOps block_weight_ops;
}
namespace fused {
extern const BlockWeightOps block_weight_ops;
}
namespace avx2 {
extern const BlockWeightOps block_weight_ops;
}
namespace avx512 {
extern const BlockWeightOps block_weight_ops;
}

const BlockWeightOps& block_weight_ops(Isa isa);

constexpr int64_t block_count(const BlockWeights& w) { return (w.k - 1) / w.block + 1; }
constexpr int64_t whole_steps(const BlockWeights& w) { return (w.block + 7) / 8 * 8; }  // of a block
// Bytes of a whole block of a panel: integers begin at multiples of 16 bytes.
constexpr int64_t packed_block_bytes(const BlockWeights& w, int64_t columns) {
  return columns * (w.f16_scales ? 2 : 4) + (w.has_zeros ? columns : 0) + whole_steps(w) * columns * w.bits / 8;
}
constexpr int64_t panel_bytes(const BlockWeights& w, int64_t columns) {
  return block_count(w) * packed_block_bytes(w, columns);
}
size_t packed_bytes(const BlockWeights& w, int columns);
void pack_blocks(const BlockWeights& w, int columns, const GivenBlocks& given, std::byte* packed);

}  // namespace tenon::cpu
