// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/kernels/f32/turn.h"
#include "backends/cpu/kernels/int8/quantise_near.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

constexpr int64_t kCarry = 1024;  // elements summed in float before they go into a double

template <class F>
TENON_INLINE void map(float* dst, int64_t count, F f) {
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) store(dst + at, f(at, kLanes));
  if (at < count) store_n(dst + at, f(at, (int)(count - at)), (int)(count - at));
}
TENON_INLINE Vec read(const float* p, int n) { return n == kLanes ? load(p) : load_n(p, n); }
TENON_INLINE void write(float* p, Vec v, int n) { n == kLanes ? store(p, v) : store_n(p, v, n); }

template <int kTaps>
TENON_INLINE void weighted_by(float* dst, const float* src, const int64_t* offsets, const float* weights,
                              int64_t count) {
  map(dst, count, [&](int64_t at, int n) {
    Vec sum = mul(set1(weights[0]), read(src + offsets[0] + at, n));
    TENON_UNROLL
    for (int k = 1; k < kTaps; ++k) sum = add(sum, mul(set1(weights[k]), read(src + offsets[k] + at, n)));
    return sum;
  });
}

constexpr int64_t kGroup = 4;  // taps added at once

void weighted(float* dst, const float* src, const int64_t* offsets, const float* weights, int64_t taps, int64_t count) {
  switch (taps) {
    case 1: return weighted_by<1>(dst, src, offsets, weights, count);
    case 2: return weighted_by<2>(dst, src, offsets, weights, count);
    case 3: return weighted_by<3>(dst, src, offsets, weights, count);
    case 4: return weighted_by<4>(dst, src, offsets, weights, count);
    default:
      weighted_by<4>(dst, src, offsets, weights, count);
      for (int64_t k = 4; k < taps; k += kGroup) {
        const int64_t last = k + kGroup < taps ? k + kGroup : taps;
        map(dst, count, [&](int64_t at, int n) {
          Vec sum = read(dst + at, n);
          for (int64_t tap = k; tap < last; ++tap)
            sum = add(sum, mul(set1(weights[tap]), read(src + offsets[tap] + at, n)));
          return sum;
        });
      }
  }
}

template <Fold kFold>
TENON_INLINE Vec join(Vec a, Vec b) {
  if constexpr (kFold == Fold::sum) return add(a, b);
  else if constexpr (kFold == Fold::product) return mul(a, b);
  else if constexpr (kFold == Fold::max) return max(a, b);
  else return min(a, b);
}
template <Before kBefore>
TENON_INLINE Vec prepare(Vec x) {
  if constexpr (kBefore == Before::absolute) return bit_and(x, set1(__builtin_bit_cast(float, 0x7fffffff)));
  else if constexpr (kBefore == Before::square) return mul(x, x);
  else return x;
}

// A row is folded in kPlaces sums side by side on every instruction set, so that all give the same bits.
constexpr int kPlaces = 32, kVectors = kPlaces / kLanes;

// Places folded pairwise: sums and products go into `carry`, the largest or smallest place is returned.
template <Fold kFold>
TENON_INLINE float join_places(Vec (&v)[kVectors], double& carry) {
  TENON_UNROLL
  for (int half = kVectors / 2; half > 0; half /= 2) {
    TENON_UNROLL
    for (int i = 0; i < half; ++i) v[i] = join<kFold>(v[i], v[i + half]);
  }
  alignas(64) float lanes[kLanes];
  store(lanes, v[0]);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) {
      const float a = lanes[i], b = lanes[i + half];
      lanes[i] = kFold == Fold::sum       ? a + b
                 : kFold == Fold::product ? a * b
                 : kFold == Fold::max     ? (a > b ? a : b)
                                          : (a < b ? a : b);
    }
  if (kFold == Fold::sum) carry += lanes[0];
  if (kFold == Fold::product) carry *= lanes[0];
  return lanes[0];
}

// Calls f(vector of places, first element, how many) for all elements in turn.
template <class F>
TENON_INLINE void each_vector(int64_t begin, int64_t end, F f) {
  int64_t at = begin;
  for (; at + kPlaces <= end; at += kPlaces) {
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) f(i, at + i * kLanes, kLanes);
  }
  TENON_UNROLL
  for (int i = 0; i < kVectors; ++i)
    if (at + i * kLanes < end) f(i, at + i * kLanes, (int)std::min<int64_t>(kLanes, end - at - i * kLanes));
}

template <Fold kFold, Before kBefore>
float fold_row(const float* src, int64_t count) {
  constexpr float kFirst = kFold == Fold::sum       ? 0.f
                           : kFold == Fold::product ? 1.f
                           : kFold == Fold::max     ? -__builtin_inff()
                                                    : __builtin_inff();
  double carry = kFold == Fold::product ? 1 : 0;
  float extreme = kFirst;
  bool nan = false;
  for (int64_t begin = 0; begin < count; begin += kCarry) {
    const int64_t end = std::min(count, begin + kCarry);
    Vec v[kVectors];
    TENON_UNROLL
    for (int i = 0; i < kVectors; ++i) v[i] = set1(kFirst);
    Vec odd = zero();  // becomes NaN where an element is: max and min may drop it
    each_vector(
        begin, end, [&](int i, int64_t at, int n) __attribute__((always_inline)) {
          Vec x = prepare<kBefore>(read(src + at, n));
          if constexpr (kFold == Fold::max || kFold == Fold::min) odd = add(odd, mul(x, zero()));
          if (kFold != Fold::sum && n < kLanes) {
            alignas(64) float lanes[kLanes];
            store(lanes, set1(kFirst));
            store_n(lanes, x, n);
            x = load(lanes);
          }
          v[i] = join<kFold>(v[i], x);
        });
    const float part = join_places<kFold>(v, carry);
    if constexpr (kFold == Fold::max || kFold == Fold::min) {
      alignas(64) float marks[kLanes];
      store(marks, odd);
      bool marked = false;
      for (const float mark : marks) marked |= mark != mark;
      // Infinities make `odd` NaN as well: look at the elements themselves.
      if (marked)
        for (int64_t i = begin; i < end; ++i) nan |= src[i] != src[i];
      extreme = kFold == Fold::max ? std::max(extreme, part) : std::min(extreme, part);
    }
  }
  if (nan) return __builtin_nanf("");
  return kFold == Fold::sum || kFold == Fold::product ? (float)carry : extreme;
}

// Four chains of each, as one operation waits for the one before.
void ends(const float* src, int64_t count, float* low, float* high) {
  constexpr int kChains = 4;
  constexpr int64_t kStep = kChains * kLanes;
  Vec lows[kChains], highs[kChains], odds[kChains];  // what is NaN or infinite makes `odds` NaN
  TENON_UNROLL
  for (int i = 0; i < kChains; ++i)
    lows[i] = set1(__builtin_inff()), highs[i] = set1(-__builtin_inff()), odds[i] = zero();
  int64_t at = 0;
  for (; at + kStep <= count; at += kStep) {
    TENON_UNROLL
    for (int i = 0; i < kChains; ++i) {
      const Vec x = load(src + at + i * kLanes);
      lows[i] = min(lows[i], x);
      highs[i] = max(highs[i], x);
      odds[i] = add(odds[i], mul(x, zero()));
    }
  }
  TENON_UNROLL
  for (int i = 1; i < kChains; ++i) {
    lows[0] = min(lows[0], lows[i]);
    highs[0] = max(highs[0], highs[i]);
    odds[0] = add(odds[0], odds[i]);
  }
  alignas(64) float lanes[3][kLanes];
  store(lanes[0], lows[0]);
  store(lanes[1], highs[0]);
  store(lanes[2], odds[0]);
  bool odd = false, nan = false;
  *low = __builtin_inff(), *high = -__builtin_inff();
  for (int i = 0; i < kLanes; ++i) {
    *low = std::min(*low, lanes[0][i]);
    *high = std::max(*high, lanes[1][i]);
    odd |= lanes[2][i] != lanes[2][i];
  }
  for (int64_t i = odd ? 0 : at; i < count; ++i) {
    *low = std::min(*low, src[i]);
    *high = std::max(*high, src[i]);
    nan |= src[i] != src[i];
  }
  if (nan) *low = *high = __builtin_nanf("");
}

template <class F>
TENON_INLINE auto with_fold(Fold fold, Before before, F f) {
  switch (before) {
    case Before::absolute: return f.template operator()<Fold::sum, Before::absolute>();
    case Before::square: return f.template operator()<Fold::sum, Before::square>();
    case Before::none: break;
  }
  switch (fold) {
    case Fold::product: return f.template operator()<Fold::product, Before::none>();
    case Fold::max: return f.template operator()<Fold::max, Before::none>();
    case Fold::min: return f.template operator()<Fold::min, Before::none>();
    case Fold::sum: break;
  }
  return f.template operator()<Fold::sum, Before::none>();
}

float fold(Fold how, Before before, const float* src, int64_t count) {
  return with_fold(how, before, [&]<Fold kFold, Before kBefore>() { return fold_row<kFold, kBefore>(src, count); });
}

void fold_into(Fold how, Before before, float* dst, const float* src, int64_t count) {
  with_fold(how, before, [&]<Fold kFold, Before kBefore>() {
    if constexpr (kFold == Fold::max) {
      for (int64_t at = 0; at < count; ++at) dst[at] = dst[at] > src[at] || dst[at] != dst[at] ? dst[at] : src[at];
    } else if constexpr (kFold == Fold::min) {
      for (int64_t at = 0; at < count; ++at) dst[at] = dst[at] < src[at] || dst[at] != dst[at] ? dst[at] : src[at];
    } else {
      map(dst, count,
          [&](int64_t at, int n) { return join<kFold>(read(dst + at, n), prepare<kBefore>(read(src + at, n))); });
    }
  });
}

Moments moments(const float* src, int64_t count) {
  // The sum of f(element) over the row.
  const auto sum_of = [&](const auto& f) __attribute__((always_inline)) {
    double sum = 0;
    for (int64_t begin = 0; begin < count; begin += kCarry) {
      Vec v[kVectors];
      TENON_UNROLL
      for (int i = 0; i < kVectors; ++i) v[i] = zero();
      each_vector(
          begin, std::min(count, begin + kCarry), [&](int i, int64_t at, int n) __attribute__((always_inline)) {
            v[i] = add(v[i], f(at, n));
          });
      join_places<Fold::sum>(v, sum);
    }
    return sum;
  };
  const double mean = sum_of([&](int64_t at, int n) { return read(src + at, n); }) / (double)count;
  const Vec centre = set1((float)mean);
  const double squares = sum_of([&](int64_t at, int n) __attribute__((always_inline)) {
    Vec d = sub(read(src + at, n), centre);
    if (n < kLanes) {
      alignas(64) float lanes[kLanes];
      store(lanes, zero());
      store_n(lanes, d, n);
      d = load(lanes);
    }
    return mul(d, d);
  });
  // The mean was rounded to float: its error is taken out again.
  const double shift = mean - (float)mean, variance = squares / (double)count - shift * shift;
  return {mean, variance < 0 ? 0 : variance};  // NaN stays
}

void column_moments(float* mean, float* squares, const float* src, int64_t rows, int64_t columns) {
  constexpr int kChains = 4;
  const Vec share = set1(1.f / (float)rows);
  int64_t at = 0;
  // kSide vectors of columns at once, the last of `n` columns. Distances from the first row add up with less rounding
  // than what may be far from 0.
  const auto strip = [&]<int kSide>(int n) __attribute__((always_inline)) {
    const auto sum_of = [&](Vec(&sums)[kSide], const auto& f) __attribute__((always_inline)) {
      TENON_UNROLL
      for (int i = 0; i < kSide; ++i) sums[i] = zero();
      for (int64_t row = 0; row < rows; ++row) {
        TENON_UNROLL
        for (int i = 0; i < kSide; ++i) sums[i] = add(sums[i], f(i, read(src + row * columns + at + i * kLanes, n)));
      }
    };
    Vec first[kSide], means[kSide], sums[kSide];
    TENON_UNROLL
    for (int i = 0; i < kSide; ++i) first[i] = read(src + at + i * kLanes, n);
    const auto distance = [&](int i, Vec x) __attribute__((always_inline)) { return sub(x, first[i]); };
    sum_of(means, distance);
    TENON_UNROLL
    for (int i = 0; i < kSide; ++i) means[i] = add(first[i], mul(means[i], share));
    const auto square = [&](int i, Vec x) __attribute__((always_inline)) { return x = sub(x, means[i]), mul(x, x); };
    sum_of(sums, square);
    TENON_UNROLL
    for (int i = 0; i < kSide; ++i) {
      write(mean + at + i * kLanes, means[i], n);
      write(squares + at + i * kLanes, sums[i], n);
    }
    at += kSide * kLanes;
  };
  while (at + kChains * kLanes <= columns) strip.template operator()<kChains>(kLanes);
  while (at < columns) strip.template operator()<1>((int)std::min<int64_t>(kLanes, columns - at));
}

void normalise(float* dst, const float* src, float mean, float factor, const float* scale, const float* bias,
               int64_t count) {
  const Vec m = set1(mean), f = set1(factor);
  map(dst, count, [&](int64_t at, int n) {
    Vec x = mul(sub(read(src + at, n), m), f);
    if (scale) x = mul(x, read(scale + at, n));
    if (bias) x = add(x, read(bias + at, n));
    return x;
  });
}

void affine(float* dst, const float* src, const float* scale, const float* bias, int step, int64_t count) {
  if (step)
    return map(dst, count,
               [&](int64_t at, int n) { return add(mul(read(src + at, n), read(scale + at, n)), read(bias + at, n)); });
  const Vec s = set1(*scale), b = set1(*bias);
  map(dst, count, [&](int64_t at, int n) { return add(mul(read(src + at, n), s), b); });
}

// Adding 1.5 * 2^23 rounds to the nearest even whole number, which then lies in the low bits.
template <class T>
TENON_INLINE void quantise(T* dst, const float* src, float scale, int32_t zero_point, int64_t count, float low,
                           float high) {
  constexpr float kMagic = 12582912.f;
  const auto z = (float)zero_point;
  low -= z;
  high -= z;
  for (int64_t at = 0; at < count; ++at) {
    float x = src[at] / scale;
    x = x == x ? x : 0.f;
    x = x < low ? low : x;
    x = x > high ? high : x;
    dst[at] = (T)(__builtin_bit_cast(int32_t, x + kMagic) - __builtin_bit_cast(int32_t, kMagic) + zero_point);
  }
}
void quantise_u8(uint8_t* dst, const float* src, float scale, int32_t zero_point, int64_t count) {
  const int64_t at = quantise_fours(dst, src, scale, zero_point, count);
  quantise(dst + at, src + at, scale, zero_point, count - at, 0, 255);
}
void quantise_i8(int8_t* dst, const float* src, float scale, int32_t zero_point, int64_t count) {
  quantise(dst, src, scale, zero_point, count, -128, 127);
}
void quantise_u16(uint16_t* dst, const float* src, float scale, int32_t zero_point, int64_t count) {
  quantise(dst, src, scale, zero_point, count, 0, 65535);
}
void quantise_i16(int16_t* dst, const float* src, float scale, int32_t zero_point, int64_t count) {
  quantise(dst, src, scale, zero_point, count, -32768, 32767);
}

void quantise_each(uint8_t* dst, const float* src, const float* scales, const int32_t* zeros, int64_t count) {
  constexpr float kMagic = 12582912.f;
  for (int64_t at = 0; at < count; ++at) {
    const auto low = (float)-zeros[at], high = (float)(255 - zeros[at]);
    float x = src[at] / scales[at];
    x = x == x ? x : 0.f;
    x = x < low ? low : x;
    x = x > high ? high : x;
    dst[at] = (uint8_t)(__builtin_bit_cast(int32_t, x + kMagic) - __builtin_bit_cast(int32_t, kMagic) + zeros[at]);
  }
}

// Numbers of the bytes that quantise_u8 gives, in one vector of the n elements at p.
TENON_INLINE Vec byte_numbers(const float* p, int n, float scale, int32_t zero_point) {
  const Vec x = read(p, n), magnitude = set1(__builtin_bit_cast(float, 0x7fffffff));
  Vec whole = zero();
  bool known = false;
#ifdef __AVX2__
  // A product with 1 / scale rounds as the quotient does where it is not near halfway.
  const Vec near = mul(x, set1(1.f / scale));
  whole = to_float(to_int(near));
  known = all_less(bit_and(sub(near, whole), magnitude), set1(0.4995f));
#endif
  if (!known) {
    const Vec quotient = min(set1(1e9f), max(set1(-1e9f), div(x, set1(scale))));
    // No number is less than anything.
    whole = round(select_less(bit_and(quotient, magnitude), set1(2e9f), quotient, zero()));
  }
  return min(set1(255.f), max(zero(), add(whole, set1((float)zero_point))));
}

void quantise_pixels(uint8_t* dst, int64_t step, const float* src, int64_t plane, int planes, float scale,
                     int32_t zero_point, int64_t count) {
  const Vec next = set1(256.f);
  for (int64_t at = 0; at < count; at += kLanes) {
    const int n = (int)std::min<int64_t>(kLanes, count - at);
    const auto numbers = [&](int c) __attribute__((always_inline)) {
      return c < planes ? byte_numbers(src + c * plane + at, n, scale, zero_point) : zero();
    };
    // Whole numbers below 2^24 are exact.
    const IVec low = to_int(add(numbers(0), mul(numbers(1), next)));
    const IVec high = to_int(add(numbers(2), mul(numbers(3), next)));
    alignas(64) uint32_t pixels[kLanes];
    istore(pixels, iadd(low, imul(high, iset1(1 << 16))));
    uint8_t* to = dst + at * step;
    if (planes == 3 && step == 3 && at + n < count) {
      // Sixteen bytes for four pixels of twelve: the next pixels are written later.
      const __m128i order = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
      TENON_UNROLL
      for (int i = 0; i < kLanes; i += 4, to += 12)
        if (at + kLanes + 2 <= count || i + 4 < kLanes)
          _mm_storeu_si128((__m128i*)to, _mm_shuffle_epi8(_mm_load_si128((const __m128i*)(pixels + i)), order));
        else
          for (int k = 0; k < 4; ++k) __builtin_memcpy(to + k * 3, pixels + i + k, 3);
      continue;
    }
    for (int i = 0; i < n; ++i, to += step) {
      if (planes == 4) __builtin_memcpy(to, pixels + i, 4);
      else __builtin_memcpy(to, pixels + i, (size_t)planes);
    }
  }
}

constexpr int64_t kBytes = 4 * kLanes;  // of a vector

TENON_INLINE IVec larger_bytes(IVec a, IVec b) {
#if defined(__AVX512F__)
  return _mm512_max_epu8(a, b);
#elif defined(__AVX2__)
  return _mm256_max_epu8(a, b);
#else
  return _mm_max_epu8(a, b);
#endif
}

// By vectors of 16 bytes, the last of which may begin before the one ahead of it ends.
TENON_INLINE void largest_few(uint8_t* dst, const uint8_t* const* sources, int64_t count, int64_t n) {
  for (int64_t at = 0; at < n; at += 16) {
    const int64_t begin = std::min<int64_t>(at, n - 16);
    __m128i best = _mm_setzero_si128();
    for (int64_t k = 0; k < count; ++k)
      best = _mm_max_epu8(best, _mm_loadu_si128((const __m128i*)(sources[k] + begin)));
    _mm_storeu_si128((__m128i*)(dst + begin), best);
  }
}

void largest_bytes(uint8_t* dst, const uint8_t* const* sources, int64_t count, int64_t n) {
  if (n >= 16 && n < kBytes) return largest_few(dst, sources, count, n);
  if (n < kBytes) {
    for (int64_t at = 0; at < n; ++at) {
      uint8_t best = 0;
      for (int64_t k = 0; k < count; ++k) best = std::max(best, sources[k][at]);
      dst[at] = best;
    }
    return;
  }
  // The last vector may begin before the one ahead of it ends.
  for (int64_t at = 0; at < n; at += kBytes) {
    const int64_t begin = std::min(at, n - kBytes);
    IVec best = izero();
    for (int64_t k = 0; k < count; ++k) best = larger_bytes(best, iload(sources[k] + begin));
    istore(dst + begin, best);
  }
}

template <class T>
void dequantise(float* dst, const T* src, float scale, int32_t zero_point, int64_t count) {
  for (int64_t at = 0; at < count; ++at) dst[at] = (float)((int32_t)src[at] - zero_point) * scale;
}

void dequantise_each(float* dst, const uint8_t* src, const float* scales, const int32_t* zeros, int64_t count) {
  for (int64_t at = 0; at < count; ++at) dst[at] = (float)((int32_t)src[at] - zeros[at]) * scales[at];
}

void to_half(uint16_t* dst, const float* src, int64_t count) {
  int64_t at = 0;
#if defined(__F16C__)
  for (; at + 8 <= count; at += 8)
    _mm_storeu_si128((__m128i*)(dst + at), _mm256_cvtps_ph(_mm256_loadu_ps(src + at), 0));
#endif
  for (; at < count; ++at) {
    const auto bits = __builtin_bit_cast(uint32_t, src[at]);
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    const uint32_t small = __builtin_bit_cast(uint32_t, shifted) - 0x3f000000u;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    dst[at] = (uint16_t)(sign | (magnitude > 0x7f800000u    ? nan
                                 : magnitude >= 0x477ff000u ? 0x7c00u
                                 : magnitude < 0x38800000u  ? small
                                                            : normal));
  }
}

void from_half(float* dst, const uint16_t* src, int64_t count) {
  int64_t at = 0;
#if defined(__F16C__)
  for (; at + 8 <= count; at += 8)
    _mm256_storeu_ps(dst + at, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(src + at))));
#endif
  for (; at < count; ++at) {
    const uint32_t sign = (uint32_t)(src[at] & 0x8000u) << 16, exponent = (src[at] >> 10) & 31u,
                   mantissa = src[at] & 0x3ffu;
    const uint32_t small = __builtin_bit_cast(uint32_t, (float)mantissa * 0x1p-24f);
    const uint32_t special = 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u);
    const uint32_t normal = ((exponent + 112) << 23) | (mantissa << 13);
    dst[at] = __builtin_bit_cast(float, sign | (exponent == 31 ? special : exponent == 0 ? small : normal));
  }
}

template <class F>
TENON_INLINE void compare_by(uint8_t* dst, const float* a, int a_step, const float* b, int b_step, int64_t count, F f) {
  if (a_step && b_step)
    for (int64_t at = 0; at < count; ++at) dst[at] = f(a[at], b[at]);
  else if (a_step)
    for (int64_t at = 0; at < count; ++at) dst[at] = f(a[at], *b);
  else
    for (int64_t at = 0; at < count; ++at) dst[at] = f(*a, b[at * b_step]);
}

void compare(Compare op, uint8_t* dst, const float* a, int a_step, const float* b, int b_step, int64_t count) {
  switch (op) {
    case Compare::less: return compare_by(dst, a, a_step, b, b_step, count, [](float x, float y) { return x < y; });
    case Compare::less_equal:
      return compare_by(dst, a, a_step, b, b_step, count, [](float x, float y) { return x <= y; });
    case Compare::greater: return compare_by(dst, a, a_step, b, b_step, count, [](float x, float y) { return x > y; });
    case Compare::greater_equal:
      return compare_by(dst, a, a_step, b, b_step, count, [](float x, float y) { return x >= y; });
    case Compare::equal: return compare_by(dst, a, a_step, b, b_step, count, [](float x, float y) { return x == y; });
  }
}

template <class A, class B>
TENON_INLINE void select_by(uint32_t* dst, const uint8_t* choice, A a, B b, int64_t count) {
  for (int64_t at = 0; at < count; ++at) {
    const uint32_t yes = a(at), no = b(at), mask = choice[at] ? ~uint32_t{0} : 0;
    dst[at] = no ^ ((yes ^ no) & mask);
  }
}

void select(uint32_t* dst, const uint8_t* choice, const uint32_t* a, const uint32_t* b, const int* steps,
            int64_t count) {
  const auto a_one = [x = *a](int64_t) { return x; };
  const auto b_one = [x = *b](int64_t) { return x; };
  const auto a_row = [a](int64_t at) { return a[at]; };
  const auto b_row = [b](int64_t at) { return b[at]; };
  if (!steps[0]) {
    const uint32_t* from = *choice ? a : b;
    const int step = *choice ? steps[1] : steps[2];
    for (int64_t at = 0; at < count; ++at) dst[at] = from[at * step];
  } else if (steps[1] && steps[2]) {
    select_by(dst, choice, a_row, b_row, count);
  } else if (steps[1]) {
    select_by(dst, choice, a_row, b_one, count);
  } else if (steps[2]) {
    select_by(dst, choice, a_one, b_row, count);
  } else {
    select_by(dst, choice, a_one, b_one, count);
  }
}

template <bool kMax, bool kLast>
TENON_INLINE void arg_by(float* best, int32_t* place, const float* src, int32_t at, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = src[i], top = best[i];
    const bool odd = value != value, top_odd = top != top;
    const bool better = (kMax ? value > top : value < top) | (odd & !top_odd);
    const bool wins = kLast ? better | (value == top) | (odd & top_odd) : better;
    best[i] = wins ? value : top;
    place[i] = wins ? at : place[i];
  }
}
void arg_into(bool max, bool last, float* best, int32_t* place, const float* src, int32_t at, int64_t count) {
  if (max)
    return last ? arg_by<true, true>(best, place, src, at, count) : arg_by<true, false>(best, place, src, at, count);
  return last ? arg_by<false, true>(best, place, src, at, count) : arg_by<false, false>(best, place, src, at, count);
}

// Squares of 4 x 4 through registers, in bands of 64 columns that stay in L1.
void turn(uint32_t* dst, int64_t dst_pitch, const uint32_t* src, int64_t src_pitch, int64_t rows, int64_t columns) {
  turn_bands((float*)dst, dst_pitch, (const float*)src, src_pitch, rows, columns);
}

}  // namespace

extern const Loops loop_table;
const Loops loop_table = {weighted,
                          fold,
                          ends,
                          fold_into,
                          moments,
                          column_moments,
                          normalise,
                          affine,
                          quantise_u8,
                          quantise_i8,
                          quantise_u16,
                          quantise_i16,
                          quantise_each,
                          quantise_pixels,
                          largest_bytes,
                          dequantise_each,
                          dequantise<uint8_t>,
                          dequantise<int8_t>,
                          dequantise<uint16_t>,
                          dequantise<int16_t>,
                          dequantise<int32_t>,
                          to_half,
                          from_half,
                          compare,
                          select,
                          arg_into,
                          turn};

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu
