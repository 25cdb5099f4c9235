// SPDX-License-Identifier: Apache-2.0
// Rows as integers by weights of 4 bits: what the memory brings is multiplied as it comes, four steps of K at once.
// Integer sums are exact; a row's floats are rounded to 23 bits of the largest of their block.
#pragma once
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/f32/block_weights.h"
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

#if defined(__AVX2__)

#if defined(__AVX512F__)
using Bytes = __m512i;
TENON_INLINE Bytes load_pairs(const std::byte* p) { return _mm512_loadu_si512(p); }
TENON_INLINE Bytes lower(Bytes v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
TENON_INLINE Bytes upper(Bytes v) { return lower(_mm512_srli_epi16(v, 4)); }
TENON_INLINE Bytes every(int32_t x) { return _mm512_set1_epi32(x); }
TENON_INLINE Bytes no_bytes() { return _mm512_setzero_si512(); }
TENON_INLINE Bytes int16_of(Bytes weights, Bytes x) { return _mm512_maddubs_epi16(weights, x); }
TENON_INLINE Bytes add_int16(Bytes a, Bytes b) { return _mm512_add_epi16(a, b); }
TENON_INLINE Bytes add_up(Bytes sum, Bytes partial) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(partial, _mm512_set1_epi16(1)));
}
TENON_INLINE Bytes minus_product(const std::byte* zeros, int32_t x) {
  const Bytes zero = _mm512_add_epi32(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)zeros)), every(8));
  return _mm512_mullo_epi32(zero, every(-x));
}
TENON_INLINE Vec floats_of(Bytes sum) { return _mm512_cvtepi32_ps(sum); }
TENON_INLINE void add_dots(Bytes& sum, Bytes weights, const int8_t* x) {
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(*(const int32_t(*))x));
}
#else
using Bytes = __m256i;
TENON_INLINE Bytes load_pairs(const std::byte* p) { return _mm256_loadu_si256((const __m256i*)p); }
TENON_INLINE Bytes lower(Bytes v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
TENON_INLINE Bytes upper(Bytes v) { return lower(_mm256_srli_epi16(v, 4)); }
TENON_INLINE Bytes every(int32_t x) { return _mm256_set1_epi32(x); }
TENON_INLINE Bytes no_bytes() { return _mm256_setzero_si256(); }
TENON_INLINE Bytes int16_of(Bytes weights, Bytes x) { return _mm256_maddubs_epi16(weights, x); }
TENON_INLINE Bytes add_int16(Bytes a, Bytes b) { return _mm256_add_epi16(a, b); }
TENON_INLINE Bytes add_up(Bytes sum, Bytes partial) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(partial, _mm256_set1_epi16(1)));
}
TENON_INLINE Bytes minus_product(const std::byte* zeros, int32_t x) {
  const Bytes zero = _mm256_add_epi32(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)zeros)), every(8));
  return _mm256_mullo_epi32(zero, every(-x));
}
TENON_INLINE Vec floats_of(Bytes sum) { return _mm256_cvtepi32_ps(sum); }
TENON_INLINE void add_dots(Bytes& sum, Bytes weights, const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  const Bytes spread = every(four);
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(weights), "x"(spread));
}
#endif

// Steps of K after which sums of 16 bits might not hold another product of 15 * 128 twice.
constexpr int64_t kInt16Steps = 32;

bool fix_row(const BlockWeights& w, const float* a, const FixedRow& to) {
  const int64_t whole = whole_steps(w);
  for (int64_t at = 0; at < block_count(w); ++at) {
    const float* const from = a + at * w.block;
    const int64_t count = w.k - at * w.block < w.block ? w.k - at * w.block : w.block;
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, from + i, sizeof bits);
      bits &= 0x7fffffffu;
      largest = bits > largest ? bits : largest;
    }
    if (largest >= 0x7f800000u) return false;
    // The largest is below 2^23 steps by so much that three signed bytes hold it, up to 127 * (2^16 + 2^8 + 1).
    constexpr int bits_of_largest = 23, least = -103;
    int exponent = (int)((largest + 0x20000u) >> 23) - 127;
    exponent = exponent < least ? least : exponent;
    const float inverse = std::ldexp(1.0f, bits_of_largest - 1 - exponent);
    to.steps[at] = std::ldexp(1.0f, exponent - bits_of_largest + 1);
    int8_t* bytes = to.bytes + at * whole * kKinds;
    int32_t* const sums = to.sums + at * kKinds;
    sums[0] = sums[1] = sums[2] = 0;
    std::memset(bytes, 0, (size_t)(whole * kKinds));
    for (int64_t i = 0; i < count; i += 8, bytes += 8 * kKinds) {
      const int64_t these = count - i < 8 ? count - i : 8;
      for (int64_t e = 0; e < these; ++e) {
        int32_t left = (int32_t)std::nearbyint(from[i + e] * inverse);
        for (int kind = 0; kind < kKinds; ++kind) {
          const auto byte = (int8_t)(left & 255);
          bytes[kind * 8 + e] = byte;
          sums[kind] += byte;
          left = (left - byte) >> 8;
        }
      }
    }
  }
  return true;
}

template <bool kDots>
void multiply_fixed_panel(const BlockWeights& w, const FixedRow& row, const std::byte* p, Vec (&total)[2]) {
  constexpr int64_t kAhead = 1024, kChunk = kBlock * 4;
  const int64_t blocks = block_count(w), whole = whole_steps(w), pitch = packed_block_bytes(w, kBlock);
  total[0] = total[1] = zero();
  const int8_t* x = row.bytes;
  for (int64_t at = 0; at < blocks; ++at, p += pitch) {
    const std::byte* const zeros = p + kBlock * (w.f16_scales ? 2 : 4);
    const std::byte* integers = zeros + (w.has_zeros ? kBlock : 0);
    Bytes sum[kKinds][2];
    TENON_UNROLL
    for (int kind = 0; kind < kKinds; ++kind) {
      const int32_t all = row.sums[at * kKinds + kind];
      TENON_UNROLL
      for (int h = 0; h < 2; ++h) sum[kind][h] = w.has_zeros ? minus_product(zeros + h * kLanes, all) : every(-8 * all);
    }
    for (int64_t step = 0; step < whole;) {
      const int64_t end = kDots || whole - step < kInt16Steps ? whole : step + kInt16Steps;
      Bytes partial[kKinds][2];
      if constexpr (!kDots) {
        TENON_UNROLL
        for (int kind = 0; kind < kKinds; ++kind) partial[kind][0] = partial[kind][1] = no_bytes();
      }
      for (; step < end; step += 8, integers += kChunk, x += 8 * kKinds) {
        TENON_UNROLL
        for (int64_t line = 0; line < kChunk; line += 64)
          _mm_prefetch((const char*)integers + kAhead + line, _MM_HINT_T0);
        TENON_UNROLL
        for (int h = 0; h < 2; ++h) {
          const Bytes pairs = load_pairs(integers + h * 4 * kLanes), low = lower(pairs), high = upper(pairs);
          TENON_UNROLL
          for (int kind = 0; kind < kKinds; ++kind) {
            if constexpr (kDots) {
              add_dots(sum[kind][h], low, x + kind * 8);
              add_dots(sum[kind][h], high, x + kind * 8 + 4);
            } else {
              int32_t four[2];
              std::memcpy(four, x + kind * 8, sizeof four);
              partial[kind][h] = add_int16(partial[kind][h], int16_of(low, every(four[0])));
              partial[kind][h] = add_int16(partial[kind][h], int16_of(high, every(four[1])));
            }
          }
        }
      }
      if constexpr (!kDots) {
        TENON_UNROLL
        for (int kind = 0; kind < kKinds; ++kind) {
          sum[kind][0] = add_up(sum[kind][0], partial[kind][0]);
          sum[kind][1] = add_up(sum[kind][1], partial[kind][1]);
        }
      }
    }
    const Vec step = set1(row.steps[at]), byte = set1(256);
    TENON_UNROLL
    for (int h = 0; h < 2; ++h) {
      const Vec scale = w.f16_scales ? load_f16((const uint16_t*)p + h * kLanes) : load((const float*)p + h * kLanes);
      Vec all = fused(floats_of(sum[2][h]), byte, floats_of(sum[1][h]));
      all = fused(all, byte, floats_of(sum[0][h]));
      total[h] = fused(all, mul(scale, step), total[h]);
    }
  }
}

template <bool kDots>
__attribute__((noinline)) void multiply_fixed_panels(const BlockWeights& w, const FixedRow& row, float* c,
                                                     int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel) {
    Vec total[2];
    multiply_fixed_panel<kDots>(w, row, w.packed + panel * panel_bytes(w, kBlock), total);
    for (int h = 0; h < 2; ++h) {
      const int64_t column = panel * kBlock + h * kLanes, left = w.n - column;
      if (left >= kLanes) store(c + column, total[h]);
      else if (left > 0) store_n(c + column, total[h], (int)left);
    }
  }
}

void multiply_fixed(const BlockWeights& w, const FixedRow& row, bool dots, float* c, int64_t begin, int64_t end) {
  (dots ? multiply_fixed_panels<true> : multiply_fixed_panels<false>)(w, row, c, begin, end);
}

#else

constexpr bool (*fix_row)(const BlockWeights&, const float*, const FixedRow&) = nullptr;
constexpr void (*multiply_fixed)(const BlockWeights&, const FixedRow&, bool, float*, int64_t, int64_t) = nullptr;

#endif

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
