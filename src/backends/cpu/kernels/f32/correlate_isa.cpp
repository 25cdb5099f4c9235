// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/correlate.h"
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

// A vector of kRows rows at once, as a sum of one row would wait for itself.
template <int kRows>
TENON_INLINE void part(const Correlation& c, int64_t row, int64_t column, int n) {
  const float* src = c.src + row * c.stride * c.src_pitch + column;
  const int64_t step = c.stride * c.src_pitch;
  Vec sums[kRows];
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) sums[r] = set1(c.bias);
  const float* weight = c.weights;
  for (int64_t y = 0; y < c.window_rows; ++y)
    for (int64_t x = 0; x < c.window_columns; ++x) {
      const float* tap = src + y * c.row_dilation * c.src_pitch + x * c.column_dilation;
      const Vec factor = set1(*weight++);
      TENON_UNROLL
      for (int r = 0; r < kRows; ++r)
        sums[r] = fma(factor, n == kLanes ? load(tap + r * step) : load_n(tap + r * step, n), sums[r]);
    }
  TENON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* to = c.dst + (row + r) * c.dst_pitch + column;
    if (n == kLanes) store(to, sums[r]);
    else store_n(to, sums[r], n);
  }
}

template <int kRows>
void rows_of(const Correlation& c, int64_t row) {
  int64_t column = 0;
  for (; column + kLanes <= c.columns; column += kLanes) part<kRows>(c, row, column, kLanes);
  if (column < c.columns) part<kRows>(c, row, column, (int)(c.columns - column));
}

}  // namespace

void correlate(const Correlation& c) {
  int64_t row = 0;
  for (; row + 8 <= c.rows; row += 8) rows_of<8>(c, row);
  for (; row + 2 <= c.rows; row += 2) rows_of<2>(c, row);
  for (; row < c.rows; ++row) rows_of<1>(c, row);
}

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu
