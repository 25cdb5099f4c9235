// SPDX-License-Identifier: Apache-2.0
// Products of rows of floats and weights of 8 bits, which are multiplied as they come from memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

// Weights (byte - zero point) * scale in panels of as many outputs as four vectors have lanes: for each output its
// scale (f32) and zero point (i32), then for each four steps of K four bytes (u8) of each output.
struct ByteRowWeights {
  int64_t n, k;
  const std::byte* packed;
};

// A row as numbers of 16 bits times a step, each as two signed bytes; zeros fill up the last four.
struct RoundedRow {
  int8_t *high, *low;
  int32_t high_sum, low_sum;
  float step;
  const float* exact;  // where the row is not finite: it is multiplied as it is
};

struct ByteRowOps {
  int columns;  // of a panel
  void (*round)(const float* row, int64_t k, RoundedRow& to);
  // c[rows][n] = rows * weights + bias, of panels [begin, end); rows of c have a pitch in floats.
  void (*multiply)(const ByteRowWeights&, const RoundedRow* rows, int64_t count, const float* bias, float* c,
                   int64_t ldc, int64_t begin, int64_t end);
};

namespace portable {
extern const ByteRowOps byte_row_ops;
}
namespace avx2 {
extern const ByteRowOps byte_row_ops, byte_row_dots;
}
namespace avx512 {
extern const ByteRowOps byte_row_ops, byte_row_dots;
}

// By instructions that multiply four bytes at once where the machine has them; the same bits by all.
const ByteRowOps& byte_row_ops(Isa isa, bool dot);
inline const ByteRowOps& byte_row_ops(Isa isa) { return byte_row_ops(isa, has_int8_dot(isa)); }

constexpr int64_t byte_row_steps(int64_t k) { return (k + 3) / 4; }
constexpr int64_t byte_panel_bytes(const ByteRowWeights& w, int64_t columns) {
  return columns * (8 + 4 * byte_row_steps(w.k));
}
constexpr int64_t byte_panels(const ByteRowWeights& w, int64_t columns) { return (w.n + columns - 1) / columns; }
// Of n rows of k bytes; `packed` is filled with zeros.
void pack_byte_rows(const ByteRowWeights& w, int columns, const uint8_t* bytes, const uint8_t* zeros,
                    const float* scales, std::byte* packed);

}  // namespace tenon::cpu
