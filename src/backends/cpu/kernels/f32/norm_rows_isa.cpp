// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/norm_rows.h"

#include <algorithm>

#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

// Rows at once: a short row is a chain of sums, and one row's waits are another's work.
constexpr int kRows = 4;
// A row is summed in so many places on every instruction set, and no step is fused, so that all give the same bits.
constexpr int kPlaces = 16, kVectors = kPlaces / kLanes;

alignas(64) const int32_t kFirst[2 * kPlaces] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

struct Sums {
  Vec v[kVectors];
};

// Upper halves added to lower halves, down to four places.
TENON_INLINE __m128 quarter(const Sums& sums) {
#if defined(__AVX512F__)
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(sums.v[0]), _mm512_extractf32x8_ps(sums.v[0], 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  const __m256 half = _mm256_add_ps(sums.v[0], sums.v[1]);
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#else
  return _mm_add_ps(_mm_add_ps(sums.v[0], sums.v[2]), _mm_add_ps(sums.v[1], sums.v[3]));
#endif
}

// The totals of four rows.
TENON_INLINE __m128 totals(const Sums (&sums)[kRows]) {
  const __m128 a = quarter(sums[0]), b = quarter(sums[1]), c = quarter(sums[2]), d = quarter(sums[3]);
  const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
  const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
  return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

struct Rows {
  const float* at[kRows];
};

// Calls f(row, vector of its places, elements) for all; behind a row's end `elements` are what f makes of 0, so f gets
// the lanes that are none of it cleared by `keep`.
template <class F>
TENON_INLINE void each(const Rows& rows, int64_t count, F f) {
  int64_t at = 0;
  for (; at + kPlaces <= count; at += kPlaces) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      TENON_UNROLL
      for (int row = 0; row < kRows; ++row) f(row, i, load(rows.at[row] + at + i * kLanes), [](Vec x) { return x; });
    }
  }
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const int n = (int)std::min<int64_t>(kLanes, count - at - i * kLanes);
    if (n <= 0) return;
    const Vec mask = load(reinterpret_cast<const float*>(kFirst + kPlaces - n));
    TENON_UNROLL
    for (int row = 0; row < kRows; ++row)
      f(row, i, load_n(rows.at[row] + at + i * kLanes, n), [mask](Vec x) { return bit_and(x, mask); });
  }
}

TENON_INLINE void clear(Sums (&sums)[kRows]) {
  TENON_UNROLL
  for (int row = 0; row < kRows; ++row) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) sums[row].v[i] = zero();
  }
}

struct Statistics {
  alignas(16) float mean[kRows], rest[kRows], factor[kRows];  // the mean is mean + rest
};

TENON_INLINE void statistics(Statistics& of, const Rows& rows, const NormRows& norm) {
  const __m128 count = _mm_set1_ps((float)norm.count);
  Sums sums[kRows], squares[kRows];
  clear(sums);
  clear(squares);
  __m128 rest = _mm_setzero_ps();
  _mm_store_ps(of.mean, rest);
  if (norm.centred) {
    each(
        rows, norm.count, [&](int row, int i, Vec x, auto) __attribute__((always_inline)) {
          sums[row].v[i] = add(sums[row].v[i], x);
        });
    _mm_store_ps(of.mean, _mm_div_ps(totals(sums), count));
    clear(sums);
    Vec mean[kRows];
    TENON_UNROLL
    for (int row = 0; row < kRows; ++row) mean[row] = set1(of.mean[row]);
    each(
        rows, norm.count, [&](int row, int i, Vec x, auto keep) __attribute__((always_inline)) {
          const Vec distance = keep(sub(x, mean[row]));
          sums[row].v[i] = add(sums[row].v[i], distance);
          squares[row].v[i] = add(squares[row].v[i], mul(distance, distance));
        });
    // The mean was rounded: its error is taken out again.
    rest = _mm_div_ps(totals(sums), count);
  } else {
    each(
        rows, norm.count, [&](int row, int i, Vec x, auto) __attribute__((always_inline)) {
          squares[row].v[i] = add(squares[row].v[i], mul(x, x));
        });
  }
  __m128 variance = _mm_sub_ps(_mm_div_ps(totals(squares), count), _mm_mul_ps(rest, rest));
  variance = _mm_max_ps(_mm_setzero_ps(), variance);  // a NaN in the second operand comes through
  _mm_store_ps(of.rest, rest);
  _mm_store_ps(of.factor, _mm_div_ps(_mm_set1_ps(1.f), _mm_sqrt_ps(_mm_add_ps(variance, _mm_set1_ps(norm.epsilon)))));
}

template <bool kScale, bool kBias>
TENON_INLINE void write_row(float* dst, const float* src, const Statistics& of, int row, const NormRows& norm) {
  const Vec mean = set1(of.mean[row]), rest = set1(of.rest[row]), factor = set1(of.factor[row]);
  const auto value = [&](Vec x, Vec scale, Vec bias) __attribute__((always_inline)) {
    x = mul(sub(sub(x, mean), rest), factor);
    if constexpr (kScale) x = mul(x, scale);
    if constexpr (kBias) x = add(x, bias);
    return x;
  };
  int64_t at = 0;
  for (; at + kLanes <= norm.count; at += kLanes)
    store(dst + at,
          value(load(src + at), kScale ? load(norm.scale + at) : zero(), kBias ? load(norm.bias + at) : zero()));
  if (const int n = (int)(norm.count - at); n > 0)
    store_n(dst + at,
            value(load_n(src + at, n), kScale ? load_n(norm.scale + at, n) : zero(),
                  kBias ? load_n(norm.bias + at, n) : zero()),
            n);
}

template <bool kScale, bool kBias>
void run(float* dst, const float* src, int64_t rows, const NormRows& norm) {
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t left = std::min<int64_t>(kRows, rows - first);
    Rows block;
    for (int row = 0; row < kRows; ++row) block.at[row] = src + (first + std::min<int64_t>(row, left - 1)) * norm.count;
    Statistics of;
    statistics(of, block, norm);
    for (int row = 0; row < left; ++row)
      write_row<kScale, kBias>(dst + (first + row) * norm.count, block.at[row], of, row, norm);
  }
}

}  // namespace

void norm_rows(float* dst, const float* src, int64_t rows, const NormRows& norm) {
  if (norm.scale) return norm.bias ? run<true, true>(dst, src, rows, norm) : run<true, false>(dst, src, rows, norm);
  return norm.bias ? run<false, true>(dst, src, rows, norm) : run<false, false>(dst, src, rows, norm);
}

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu
