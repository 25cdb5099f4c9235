// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/byte_rows.h"

#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/int8/simd_int8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

constexpr int kVectors = 4, kColumns = kVectors * kLanes;
// Two sums for each vector and each row, in 32 or 16 registers: few rows take a panel whole, more its halves.
#if defined(__AVX512F__)
constexpr int kRows = 6, kWholeRows = 3;
#else
constexpr int kRows = 2, kWholeRows = 1;
#endif

// The largest is 32639 steps, which two signed bytes hold: 127 * 257.
void round_row(const float* row, int64_t k, RoundedRow& to) {
  int32_t largest = 0;
  for (int64_t at = 0; at < k; ++at) {
    int32_t bits;
    std::memcpy(&bits, row + at, sizeof bits);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  to.exact = largest >= 0x7f800000 ? row : nullptr;
  if (to.exact) return;
  float most;
  std::memcpy(&most, &largest, sizeof most);
  constexpr float steps = 32639, least = 0x1p-100f;
  to.step = (most < least ? least : most) / steps;
  const float inverse = 1 / to.step;
  int32_t high_sum = 0, low_sum = 0;
  for (int64_t at = 0; at < k; ++at) {
    const auto number = static_cast<int32_t>(std::nearbyint(row[at] * inverse));
    const int32_t high = (number + 128) >> 8, low = number - high * 256;
    to.high[at] = static_cast<int8_t>(high), to.low[at] = static_cast<int8_t>(low);
    high_sum += high, low_sum += low;
  }
  for (int64_t at = k; at < byte_row_steps(k) * 4; ++at) to.high[at] = to.low[at] = 0;
  to.high_sum = high_sum, to.low_sum = low_sum;
}

// Four signed bytes of a row, for sums of their products with four bytes of weights.
template <bool kDot>
struct RowBytes;
#if defined(__AVX2__)
template <>
struct RowBytes<true> {
  IVec all;
  static TENON_INLINE RowBytes of(IVec v) { return {v}; }
  TENON_INLINE void add(IVec& sum, IVec weights) const { add_dots(sum, weights, all); }
};
#endif
// Where no instruction multiplies four bytes: those at even and at odd places as 16 bits.
template <>
struct RowBytes<false> {
  IVec even, odd;
  static TENON_INLINE RowBytes of(IVec v) { return {even_i8(v), odd_i8(v)}; }
  TENON_INLINE void add(IVec& sum, IVec weights) const {
    add_int16(sum, even, even_u8(weights));
    add_int16(sum, odd, odd_u8(weights));
  }
};

// Rows times V vectors of a panel from vector `first` on.
template <bool kDot, int R, int V>
TENON_INLINE void multiply_vectors(int64_t steps, const RoundedRow* rows, const std::byte* p, int first,
                                   Vec (&total)[R][V]) {
  IVec high[R][V], low[R][V];
  TENON_UNROLL
  for (int v = 0; v < V; ++v) {
    const IVec zero_point = iload(p + (kColumns + (first + v) * kLanes) * 4);
    TENON_UNROLL
    for (int r = 0; r < R; ++r) {
      high[r][v] = imul(zero_point, iset1(-rows[r].high_sum));
      low[r][v] = imul(zero_point, iset1(-rows[r].low_sum));
    }
  }
  const std::byte* bytes = p + kColumns * 8 + first * kLanes * 4;
  for (int64_t step = 0; step < steps; ++step, bytes += kColumns * 4) {
    IVec weights[V];
    TENON_UNROLL
    for (int v = 0; v < V; ++v) weights[v] = iload(bytes + v * kLanes * 4);
    TENON_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto upper = RowBytes<kDot>::of(spread4(rows[r].high + step * 4));
      const auto lower = RowBytes<kDot>::of(spread4(rows[r].low + step * 4));
      TENON_UNROLL
      for (int v = 0; v < V; ++v) upper.add(high[r][v], weights[v]), lower.add(low[r][v], weights[v]);
    }
  }
  TENON_UNROLL
  for (int r = 0; r < R; ++r) {
    TENON_UNROLL
    for (int v = 0; v < V; ++v) {
      const Vec all = fused(to_float(high[r][v]), set1(256), to_float(low[r][v]));
      const Vec scale = load(reinterpret_cast<const float*>(p) + (first + v) * kLanes);
      total[r][v] = mul(all, mul(scale, set1(rows[r].step)));
    }
  }
}

// A row with infinite numbers or NaN, as floats are multiplied.
void multiply_exact(const ByteRowWeights& w, const float* row, const std::byte* p, int64_t columns, const float* bias,
                    float* c) {
  for (int64_t column = 0; column < columns; ++column) {
    float scale, sum = 0;
    int32_t zero_point;
    std::memcpy(&scale, p + column * 4, sizeof scale);
    std::memcpy(&zero_point, p + (kColumns + column) * 4, sizeof zero_point);
    const std::byte* const bytes = p + kColumns * 8 + column * 4;
    for (int64_t at = 0; at < w.k; ++at) {
      const auto byte = static_cast<int32_t>(bytes[at / 4 * kColumns * 4 + at % 4]);
      sum += static_cast<float>(byte - zero_point) * scale * row[at];
    }
    c[column] = sum + bias[column];
  }
}

template <bool kDot, int R>
void multiply_rows(const ByteRowWeights& w, const RoundedRow* rows, const std::byte* p, int64_t columns,
                   const float* bias, float* c, int64_t ldc) {
  constexpr int V = R <= kWholeRows ? kVectors : kVectors / 2;
  for (int first = 0; first < kVectors; first += V) {
    Vec total[R][V];
    multiply_vectors<kDot, R, V>(byte_row_steps(w.k), rows, p, first, total);
    TENON_UNROLL
    for (int r = 0; r < R; ++r) {
      TENON_UNROLL
      for (int v = 0; v < V; ++v) {
        const int64_t at = (first + v) * kLanes, left = columns - at;
        if (left >= kLanes) store(c + r * ldc + at, add(total[r][v], load(bias + at)));
        else if (left > 0) store_n(c + r * ldc + at, add(total[r][v], load_n(bias + at, (int)left)), (int)left);
      }
    }
  }
}

template <bool kDot, int R>
void multiply_some(int64_t count, const ByteRowWeights& w, const RoundedRow* rows, const std::byte* p, int64_t columns,
                   const float* bias, float* c, int64_t ldc) {
  if (count == R) return multiply_rows<kDot, R>(w, rows, p, columns, bias, c, ldc);
  if constexpr (R > 1) multiply_some<kDot, R - 1>(count, w, rows, p, columns, bias, c, ldc);
}

template <bool kDot>
void multiply(const ByteRowWeights& w, const RoundedRow* rows, int64_t count, const float* bias, float* c, int64_t ldc,
              int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel) {
    const std::byte* const p = w.packed + panel * byte_panel_bytes(w, kColumns);
    const int64_t first = panel * kColumns, columns = w.n - first < kColumns ? w.n - first : kColumns;
    for (int64_t row = 0; row < count;) {
      float* const to = c + row * ldc + first;
      int64_t together = 1;
      if (rows[row].exact) {
        multiply_exact(w, rows[row].exact, p, columns, bias + first, to);
      } else {
        while (together < kRows && row + together < count && !rows[row + together].exact) ++together;
        multiply_some<kDot, kRows>(together, w, rows + row, p, columns, bias + first, to, ldc);
      }
      row += together;
    }
  }
}

}  // namespace

#if defined(__AVX2__)
extern const ByteRowOps byte_row_dots;
const ByteRowOps byte_row_dots = {kColumns, round_row, multiply<true>};
#endif
extern const ByteRowOps byte_row_ops;
const ByteRowOps byte_row_ops = {kColumns, round_row, multiply<false>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
