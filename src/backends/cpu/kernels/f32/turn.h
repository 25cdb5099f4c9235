// SPDX-License-Identifier: Apache-2.0
// Exchange of rows and columns of 32 bits, for loops_isa.cpp and stem_isa.cpp.
#pragma once

#include <algorithm>
#include <numeric>

#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// Four rows of four at a time.
static TENON_INLINE void turn_four(float* to, int64_t to_pitch, const float* from, int64_t from_pitch) {
  __m128 v0 = _mm_loadu_ps(from), v1 = _mm_loadu_ps(from + from_pitch);
  __m128 v2 = _mm_loadu_ps(from + 2 * from_pitch), v3 = _mm_loadu_ps(from + 3 * from_pitch);
  _MM_TRANSPOSE4_PS(v0, v1, v2, v3);
  _mm_storeu_ps(to, v0);
  _mm_storeu_ps(to + to_pitch, v1);
  _mm_storeu_ps(to + 2 * to_pitch, v2);
  _mm_storeu_ps(to + 3 * to_pitch, v3);
}

// Of 64 sets of a first cache of 48 or 32 KB, those that rows so far apart begin in: 8 and more hold a line of each of
// 64 rows.
static inline int64_t sets_of(int64_t pitch) {
  constexpr int64_t kSets = 64, kLine = 16;
  return pitch % kLine != 0 ? kSets : kSets / std::gcd(kSets, pitch / kLine);
}

// A band of at most 64 rows and columns, along columns first, which writes to as many rows in turn, or along rows.
static TENON_INLINE void turn_band(float* dst, int64_t dst_pitch, const float* src, int64_t src_pitch, int64_t rows,
                                   int64_t columns, bool along_rows) {
  const int64_t whole_rows = rows & ~int64_t{3}, whole_columns = columns & ~int64_t{3};
  if (along_rows) {
    for (int64_t c = 0; c < whole_columns; c += 4)
      for (int64_t r = 0; r < whole_rows; r += 4)
        turn_four(dst + c * dst_pitch + r, dst_pitch, src + r * src_pitch + c, src_pitch);
  } else {
    for (int64_t r = 0; r < whole_rows; r += 4)
      for (int64_t c = 0; c < whole_columns; c += 4)
        turn_four(dst + c * dst_pitch + r, dst_pitch, src + r * src_pitch + c, src_pitch);
  }
  for (int64_t c = whole_columns; c < columns; ++c)
    for (int64_t r = 0; r < whole_rows; ++r) dst[c * dst_pitch + r] = src[r * src_pitch + c];
  for (int64_t r = whole_rows; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) dst[c * dst_pitch + r] = src[r * src_pitch + c];
}

static inline void turn_bands(float* dst, int64_t dst_pitch, const float* src, int64_t src_pitch, int64_t rows,
                              int64_t columns) {
  constexpr int64_t kBand = 64, kPitch = kBand + 16;
  const int64_t dst_sets = sets_of(dst_pitch), src_sets = sets_of(src_pitch);
  // Where lines of neither side stay in the cache, through a square whose rows lie in different sets.
  alignas(64) float square[kBand * kPitch];
  for (int64_t row = 0; row < rows; row += kBand)
    for (int64_t column = 0; column < columns; column += kBand) {
      const int64_t high = std::min(kBand, rows - row), wide = std::min(kBand, columns - column);
      float* to = dst + column * dst_pitch + row;
      const float* from = src + row * src_pitch + column;
      if (dst_sets >= 8) {
        turn_band(to, dst_pitch, from, src_pitch, high, wide, false);
      } else if (src_sets >= 4) {
        turn_band(to, dst_pitch, from, src_pitch, high, wide, true);
      } else {
        turn_band(square, kPitch, from, src_pitch, high, wide, false);
        for (int64_t c = 0; c < wide; ++c) std::copy_n(square + c * kPitch, high, to + c * dst_pitch);
      }
    }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
