// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/epilogue.h"
#include "backends/cpu/kernels/f32/gate.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/kernels/vecmath.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

template <class F>
TENON_INLINE void map1(float* dst, const float* src, int64_t count, F f) {
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) store(dst + at, f(load(src + at)));
  if (at < count) store_n(dst + at, f(load_n(src + at, (int)(count - at))), (int)(count - at));
}

template <class F>
TENON_INLINE void map2(float* dst, const float* a, int a_step, const float* b, int b_step, int64_t count, F f) {
  const Vec a0 = set1(*a), b0 = set1(*b);
  int64_t at = 0;
  if (a_step && b_step) {
    for (; at + kLanes <= count; at += kLanes) store(dst + at, f(load(a + at), load(b + at)));
    if (at < count)
      store_n(dst + at, f(load_n(a + at, (int)(count - at)), load_n(b + at, (int)(count - at))), (int)(count - at));
  } else if (a_step) {
    map1(dst, a, count, [&](Vec x) { return f(x, b0); });
  } else if (b_step) {
    map1(dst, b, count, [&](Vec x) { return f(a0, x); });
  } else {
    for (; at < count; ++at) store_n(dst + at, f(a0, b0), 1);
  }
}

template <class E>
void binary_of(float* dst, const float* a, int a_step, const float* b, int b_step, int64_t count) {
  if constexpr (E::operands == 2)
    map2(dst, a, a_step, b, b_step, count, [](Vec x, Vec y) { return E::apply(Value(x), Value(y)).v; });
}

template <class E>
void unary_of(float alpha, float beta, float* dst, const float* src, int64_t count) {
  if constexpr (E::operands == 1)
    map1(dst, src, count, [&](Vec x) { return expr::apply<E>(Value(x), Value(alpha), Value(beta)).v; });
}

// Entries at whole numbers.
TENON_INLINE Vec entries_of(const float* table, Vec at) {
#if defined(__AVX512F__)
  return _mm512_i32gather_ps(_mm512_cvtps_epi32(at), table, 4);
#elif defined(__AVX2__)
  return _mm256_i32gather_ps(table, _mm256_cvtps_epi32(at), 4);
#else
  alignas(16) float found[kLanes];
  store(found, at);
  for (float& one : found) one = table[(int)one];
  return load(found);
#endif
}

void look_up(float* dst, const float* src, float scale, float low, const float* table, int64_t count) {
  const Value first(low), last(low + 65535), step(scale);
  map1(dst, src, count,
       [&](Vec x) { return entries_of(table, (steps_within(Value(x), step, first, last) - first).v); });
}

void gate(float* dst, const float* a, int a_step, const float* b, int b_step, int64_t count) {
  map2(
      dst, a, a_step, b, b_step, count, [](Vec x, Vec y) __attribute__((always_inline)) { return gate_of(x, y); });
}

void binary(expr::Id f, float* dst, const float* a, int a_step, const float* b, int b_step, int64_t count) {
  switch (f) {
#define TENON_CASE(name, file) \
  case expr::Id::name: return binary_of<expr::name>(dst, a, a_step, b, b_step, count);
    TENON_EXPRESSIONS(TENON_CASE)
#undef TENON_CASE
  }
}

void unary(expr::Id f, float alpha, float beta, float* dst, const float* src, int64_t count) {
  switch (f) {
#define TENON_CASE(name, file) \
  case expr::Id::name: return unary_of<expr::name>(alpha, beta, dst, src, count);
    TENON_EXPRESSIONS(TENON_CASE)
#undef TENON_CASE
  }
}

void scale(float* dst, float factor, int64_t count) {
  const Vec f = set1(factor);
  map1(dst, dst, count, [&](Vec x) { return mul(x, f); });
}

void blend(float* dst, const float* a, float wa, const float* b, float wb, int64_t count) {
  const Vec va = set1(wa), vb = set1(wb);
  map2(dst, a, 1, b, 1, count, [&](Vec x, Vec y) { return add(mul(x, va), mul(y, vb)); });
}

// kVectors vectors of each row at once, so that the results stay in registers while the rows pass by.
template <class E, int kVectors, class Load, class Store>
TENON_INLINE void fold_part(float* dst, const float* const* rows, int64_t many, int64_t at, bool more, Load from,
                            Store to) {
  Vec v[kVectors];
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) v[i] = from((more ? dst : rows[0]) + at + i * kLanes);
  for (int64_t row = more ? 0 : 1; row < many; ++row) TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) v[i] = E::apply(Value(v[i]), Value(from(rows[row] + at + i * kLanes))).v;
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) to(dst + at + i * kLanes, v[i]);
}

template <class E>
void fold_of(float* dst, const float* const* rows, int64_t many, int64_t count, bool more) {
  constexpr int kVectors = 4;
  const auto from = [](const float* p) __attribute__((always_inline)) { return load(p); };
  const auto to = [](float* p, Vec v) __attribute__((always_inline)) { store(p, v); };
  int64_t at = 0;
  for (; at + kVectors * kLanes <= count; at += kVectors * kLanes)
    fold_part<E, kVectors>(dst, rows, many, at, more, from, to);
  for (; at + kLanes <= count; at += kLanes) fold_part<E, 1>(dst, rows, many, at, more, from, to);
  if (const int left = (int)(count - at); left > 0)
    fold_part<E, 1>(
        dst, rows, many, at, more, [&](const float* p) __attribute__((always_inline)) { return load_n(p, left); },
        [&](float* p, Vec v) __attribute__((always_inline)) { store_n(p, v, left); });
}

void fold(bool largest, float* dst, const float* const* rows, int64_t many, int64_t count, bool more) {
  if (largest) fold_of<expr::Max>(dst, rows, many, count, more);
  else fold_of<expr::Add>(dst, rows, many, count, more);
}

// kVectors vectors of a window at once; `n` lanes of the last.
template <class E, int kVectors, class Finish>
TENON_INLINE void window_of(float* dst, const float* src, const int64_t* offsets, int64_t taps, int n, Finish finish) {
  const auto read = [&](const float* p) __attribute__((always_inline)) { return n == kLanes ? load(p) : load_n(p, n); };
  Vec v[kVectors];
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) v[i] = read(src + offsets[0] + i * kLanes);
  for (int64_t k = 1; k < taps; ++k) {
    const float* tap = src + offsets[k];
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) v[i] = E::apply(Value(v[i]), Value(read(tap + i * kLanes))).v;
  }
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    if (n == kLanes) store(dst + i * kLanes, finish(v[i]));
    else store_n(dst + i * kLanes, finish(v[i]), n);
  }
}

template <class E, class Finish>
TENON_INLINE void windows_of(float* dst, int64_t dst_step, const float* src, int64_t src_step, const int64_t* offsets,
                             int64_t taps, int64_t channels, int64_t pixels, Finish finish) {
  constexpr int kVectors = 4;
  for (int64_t pixel = 0; pixel < pixels; ++pixel, dst += dst_step, src += src_step) {
    int64_t at = 0;
    for (; at + kVectors * kLanes <= channels; at += kVectors * kLanes)
      window_of<E, kVectors>(dst + at, src + at, offsets, taps, kLanes, finish);
    for (; at + kLanes <= channels; at += kLanes) window_of<E, 1>(dst + at, src + at, offsets, taps, kLanes, finish);
    if (at < channels) window_of<E, 1>(dst + at, src + at, offsets, taps, (int)(channels - at), finish);
  }
}

void windows(bool largest, float factor, float* dst, int64_t dst_step, const float* src, int64_t src_step,
             const int64_t* offsets, int64_t taps, int64_t channels, int64_t pixels) {
  if (largest)
    return windows_of<expr::Max>(dst, dst_step, src, src_step, offsets, taps, channels, pixels,
                                 [](Vec v) { return v; });
  const Vec f = set1(factor);
  windows_of<expr::Add>(dst, dst_step, src, src_step, offsets, taps, channels, pixels,
                        [f](Vec v) { return mul(v, f); });
}

// Sixteen places folded pairwise, each with the one half of them further on.
template <int kVectors, class Join>
TENON_INLINE float fold_places(const Vec (&v)[kVectors], const Join& join) {
#if defined(__AVX512F__)
  const __m256 eight = join(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
  __m128 four = join(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#elif defined(__AVX2__)
  const __m256 eight = join(v[0], v[1]);
  __m128 four = join(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
  __m128 four = join(join(v[0], v[2]), join(v[1], v[3]));
#endif
  four = join(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(join(four, _mm_shuffle_ps(four, four, 1)));
}

// All bits of the first n lanes, and of those behind them.
alignas(64) const int32_t kLaneBits[48] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                           0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                           -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
TENON_INLINE Vec first_lanes(int n) { return load(reinterpret_cast<const float*>(kLaneBits + 16 - n)); }
TENON_INLINE Vec lanes_behind(int n) { return load(reinterpret_cast<const float*>(kLaneBits + 32 - n)); }

// Sixteen sums side by side on every instruction set, added up pairwise, so that all give the same bits. Several rows
// at once, as each of them is a chain of steps that wait for one another.
template <int kRows>
TENON_INLINE void softmax_of(float* dst, const float* src, int64_t pitch, int64_t count) {
  constexpr int kPlaces = 16, kVectors = kPlaces / kLanes;
  // Calls f(row, vector of places, first element, how many).
  const auto each = [&](const auto& f) __attribute__((always_inline)) {
    int64_t at = 0;
    for (; at + kPlaces <= count; at += kPlaces) {
      TENON_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        TENON_UNROLL
        for (int row = 0; row < kRows; ++row) f(row, i, at + i * kLanes, kLanes);
      }
    }
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const int64_t left = count - at - i * kLanes;
      TENON_UNROLL
      for (int row = 0; row < kRows && left > 0; ++row) f(row, i, at + i * kLanes, left < kLanes ? (int)left : kLanes);
    }
  };
  const auto part = [&](const float* p, int n, Vec behind) __attribute__((always_inline)) {
    return n == kLanes ? load(p) : bit_or(load_n(p, n), bit_and(behind, lanes_behind(n)));
  };
  Vec v[kRows][kVectors], first[kRows], top[kRows];
  TENON_UNROLL
  for (int row = 0; row < kRows; ++row) {
    first[row] = set1(src[row * pitch]);
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) v[row][i] = first[row];
  }
  each([&](int row, int i, int64_t at, int n)
           __attribute__((always_inline)) { v[row][i] = max(v[row][i], part(src + row * pitch + at, n, first[row])); });
  TENON_UNROLL
  for (int row = 0; row < kRows; ++row) {
    top[row] = set1(fold_places(v[row], [](auto a, auto b) { return a > b ? a : b; }));
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) v[row][i] = zero();
  }
  const Vec none = set1(-kInfinity);
  each([&](int row, int i, int64_t at, int n) __attribute__((always_inline)) {
    const Vec x = exp(sub(part(src + row * pitch + at, n, none), top[row]));
    float* to = dst + row * pitch + at;
    if (n == kLanes) store(to, x);
    else store_n(to, x, n);
    v[row][i] = add(v[row][i], n == kLanes ? x : bit_and(x, first_lanes(n)));
  });
  TENON_UNROLL
  for (int row = 0; row < kRows; ++row)
    scale(dst + row * pitch, 1.f / fold_places(v[row], [](auto a, auto b) { return a + b; }), count);
}

void softmax(float* dst, const float* src, int64_t rows, int64_t pitch, int64_t count) {
  constexpr int kRows = kLanes == 16 ? 4 : 2;
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) softmax_of<kRows>(dst + row * pitch, src + row * pitch, pitch, count);
  for (; row < rows; ++row) softmax_of<1>(dst + row * pitch, src + row * pitch, pitch, count);
}

// kVectors vectors of lines, `n` lanes of the last: largest and sums stay in registers.
template <int kVectors>
TENON_INLINE void softmax_lines_of(float* dst, const float* src, int64_t pitch, int64_t count, int n) {
  const auto read = [&](const float* p, int i) __attribute__((always_inline)) {
    return i + 1 < kVectors || n == kLanes ? load(p + i * kLanes) : load_n(p + i * kLanes, n);
  };
  const auto write = [&](float* p, int i, Vec v) __attribute__((always_inline)) {
    if (i + 1 < kVectors || n == kLanes) store(p + i * kLanes, v);
    else store_n(p + i * kLanes, v, n);
  };
  Vec top[kVectors], sum[kVectors];
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) top[i] = read(src, i), sum[i] = zero();
  for (int64_t at = 1; at < count; ++at) TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) top[i] = max(top[i], read(src + at * pitch, i));
  for (int64_t at = 0; at < count; ++at) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const Vec power = exp(sub(read(src + at * pitch, i), top[i]));
      write(dst + at * pitch, i, power);
      sum[i] = add(sum[i], power);
    }
  }
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) sum[i] = div(set1(1.f), sum[i]);
  for (int64_t at = 0; at < count; ++at) TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) write(dst + at * pitch, i, mul(read(dst + at * pitch, i), sum[i]));
}

void softmax_lines(float* dst, const float* src, int64_t lines, int64_t pitch, int64_t count) {
  constexpr int kVectors = 4;
  int64_t at = 0;
  for (; at + kVectors * kLanes <= lines; at += kVectors * kLanes)
    softmax_lines_of<kVectors>(dst + at, src + at, pitch, count, kLanes);
  for (; at < lines; at += kLanes)
    softmax_lines_of<1>(dst + at, src + at, pitch, count, lines - at < kLanes ? (int)(lines - at) : kLanes);
}

// Sixteen sums of each row, as in softmax_of().
template <int kRows>
TENON_INLINE void dots_of(float* dst, const float* src, const float* x, int64_t count) {
  constexpr int kPlaces = 16, kVectors = kPlaces / kLanes;
  Vec v[kRows][kVectors];
  TENON_UNROLL
  for (int row = 0; row < kRows; ++row) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) v[row][i] = zero();
  }
  int64_t at = 0;
  for (; at + kPlaces <= count; at += kPlaces) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const Vec factor = load(x + at + i * kLanes);
      TENON_UNROLL
      for (int row = 0; row < kRows; ++row)
        v[row][i] = fma(load(src + row * count + at + i * kLanes), factor, v[row][i]);
    }
  }
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const int64_t first = at + i * kLanes, left = count - first;
    if (left <= 0) continue;
    const int n = left < kLanes ? (int)left : kLanes;
    const Vec factor = load_n(x + first, n);
    TENON_UNROLL
    for (int row = 0; row < kRows; ++row) v[row][i] = fma(load_n(src + row * count + first, n), factor, v[row][i]);
  }
  TENON_UNROLL
  for (int row = 0; row < kRows; ++row) dst[row] = fold_places(v[row], [](auto a, auto b) { return a + b; });
}

void dots(float* dst, const float* src, const float* x, int64_t rows, int64_t count) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) dots_of<4>(dst + row, src + row * count, x, count);
  for (; row < rows; ++row) dots_of<1>(dst + row, src + row * count, x, count);
}

// Two sums of each place, of every other row.
template <int kVectors>
TENON_INLINE void weigh_of(float* dst, const float* src, int64_t pitch, const float* weights, int64_t rows, int last) {
  const auto take = [&](int64_t row, int i) {
    const float* from = src + row * pitch + i * kLanes;
    return i + 1 < kVectors || last == kLanes ? load(from) : load_n(from, last);
  };
  Vec v[2][kVectors];
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) v[0][i] = v[1][i] = zero();
  int64_t row = 0;
  for (; row + 2 <= rows; row += 2) {
    TENON_UNROLL
    for (int of = 0; of < 2; ++of) {
      const Vec factor = set1(weights[row + of]);
      TENON_UNROLL
      for (int i = 0; i < kVectors; ++i) v[of][i] = fma(take(row + of, i), factor, v[of][i]);
    }
  }
  for (; row < rows; ++row) {
    const Vec factor = set1(weights[row]);
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) v[0][i] = fma(take(row, i), factor, v[0][i]);
  }
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i) store_n(dst + i * kLanes, v[0][i] + v[1][i], i + 1 < kVectors ? kLanes : last);
}

void weigh(float* dst, const float* src, int64_t pitch, const float* weights, int64_t rows, int64_t count) {
  int64_t at = 0;
  for (; at + 4 * kLanes <= count; at += 4 * kLanes) weigh_of<4>(dst + at, src + at, pitch, weights, rows, kLanes);
  for (; at < count; at += kLanes)
    weigh_of<1>(dst + at, src + at, pitch, weights, rows, count - at < kLanes ? (int)(count - at) : kLanes);
}

void from_bool(float* __restrict dst, const uint8_t* __restrict src, int64_t count) {
  for (int64_t at = 0; at < count; ++at) dst[at] = src[at] != 0 ? 1.f : 0.f;
}

}  // namespace

extern const RowOps row_ops;
const RowOps row_ops = {binary,  unary,   look_up,       gate, scale, blend,    fold,
                        windows, softmax, softmax_lines, dots, weigh, from_bool};

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu
