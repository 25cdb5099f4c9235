// SPDX-License-Identifier: Apache-2.0
// Bytes by a table of 256: in registers, sixteen entries a shuffle or 128 a permutation.
#include <immintrin.h>

#include "backends/cpu/kernels/int8/byte_table.h"
#include "backends/cpu/kernels/value.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

constexpr int kParts = 16;  // of the table, of as many entries

#ifdef __AVX512F__

constexpr int64_t kWide = 64;
TENON_INLINE __mmask64 first_bytes(int64_t n) { return n >= kWide ? ~0ull : (1ull << n) - 1; }

// An index of part p, from which 16 p is taken by XOR, becomes one of 0x70 to 0x7f, whose last four bits a shuffle
// reads; each other becomes 0x80 or more, for which it gives 0.
TENON_INLINE __m512i shuffled(__m512i x, const uint8_t* table) {
  const __m512i above = _mm512_set1_epi8(0x70), step = _mm512_set1_epi8(16);
  __m512i sum = _mm512_setzero_si512(), part = sum;
  for (int p = 0; p < kParts; ++p, part = _mm512_add_epi8(part, step)) {
    const __m512i entries = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)(table + 16 * p)));
    sum = _mm512_or_si512(sum, _mm512_shuffle_epi8(entries, _mm512_adds_epu8(_mm512_xor_si512(x, part), above)));
  }
  return sum;
}

template <class F>
TENON_INLINE void each_vector(const ByteLines& l, const F& f) {
  for (int64_t line = 0; line < l.lines; ++line)
    for (int64_t at = 0; at < l.width; at += kWide) {
      const __mmask64 some = first_bytes(l.width - at);
      const __m512i x = _mm512_maskz_loadu_epi8(some, l.from + line * l.from_pitch + at);
      _mm512_mask_storeu_epi8(l.to + line * l.to_pitch + at, some, f(x));
    }
}

void look_up(const ByteLines& l, const uint8_t* table) {
  each_vector(
      l, [&](__m512i x) __attribute__((always_inline)) { return shuffled(x, table); });
}

// The last seven bits of an index pick one of 128 entries, the first bit one of two such halves.
void look_up_permuted(const ByteLines& l, const uint8_t* table) {
  __m512i quarters[4];
  for (int q = 0; q < 4; ++q) quarters[q] = _mm512_loadu_si512(table + 64 * q);
  each_vector(
      l, [&](__m512i x) __attribute__((always_inline)) {
        __m512i low = x, high = x;
        __asm__("vpermi2b %2, %1, %0" : "+v"(low) : "v"(quarters[0]), "v"(quarters[1]));
        __asm__("vpermi2b %2, %1, %0" : "+v"(high) : "v"(quarters[2]), "v"(quarters[3]));
        return _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
      });
}

#elif defined __AVX2__

TENON_INLINE __m256i shuffled(__m256i x, const uint8_t* table) {
  const __m256i above = _mm256_set1_epi8(0x70), step = _mm256_set1_epi8(16);
  __m256i sum = _mm256_setzero_si256(), part = sum;
  for (int p = 0; p < kParts; ++p, part = _mm256_add_epi8(part, step)) {
    const __m256i entries = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)(table + 16 * p)));
    sum = _mm256_or_si256(sum, _mm256_shuffle_epi8(entries, _mm256_adds_epu8(_mm256_xor_si256(x, part), above)));
  }
  return sum;
}

void look_up(const ByteLines& l, const uint8_t* table) {
  for (int64_t line = 0; line < l.lines; ++line) {
    const uint8_t* const from = l.from + line * l.from_pitch;
    uint8_t* const to = l.to + line * l.to_pitch;
    int64_t at = 0;
    for (; at + 32 <= l.width; at += 32)
      _mm256_storeu_si256((__m256i*)(to + at), shuffled(_mm256_loadu_si256((const __m256i*)(from + at)), table));
    for (; at + 16 <= l.width; at += 16) {
      const __m128i x = _mm_loadu_si128((const __m128i*)(from + at));
      _mm_storeu_si128((__m128i*)(to + at), _mm256_castsi256_si128(shuffled(_mm256_castsi128_si256(x), table)));
    }
    for (; at < l.width; ++at) to[at] = table[from[at]];
  }
}

#else

void look_up(const ByteLines& l, const uint8_t* table) {
  for (int64_t line = 0; line < l.lines; ++line)
    for (int64_t at = 0; at < l.width; ++at) l.to[line * l.to_pitch + at] = table[l.from[line * l.from_pitch + at]];
}

#endif

}  // namespace

extern const ByteTable byte_table;
const ByteTable byte_table = look_up;
#ifdef __AVX512F__
extern const ByteTable byte_table_permuted;
const ByteTable byte_table_permuted = look_up_permuted;
#endif

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
