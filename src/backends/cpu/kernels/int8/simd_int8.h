// SPDX-License-Identifier: Apache-2.0
// Integer vectors beside those of simd.h. Including this first makes fma() two roundings, so that float steps give the
// same bits on every instruction set.
#pragma once

#define TENON_TWO_ROUNDINGS
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

#if defined(__AVX512F__)

using IVec = __m512i;
static TENON_INLINE IVec izero() { return _mm512_setzero_si512(); }
static TENON_INLINE IVec iset1(int32_t x) { return _mm512_set1_epi32(x); }
static TENON_INLINE IVec iload(const void* p) { return _mm512_loadu_si512(p); }
static TENON_INLINE void istore(void* p, IVec v) { _mm512_storeu_si512(p, v); }
// Stores half i of two. On Zen 5 this takes nothing from what multiplies, as other stores do.
template <int i>
static TENON_INLINE void extract_half(void* p, IVec v) {
  __asm__("vextracti64x4 %2, %1, %0" : "=m"(*static_cast<__m256i_u*>(p)) : "v"(v), "i"(i));
}
static TENON_INLINE IVec iadd(IVec a, IVec b) { return _mm512_add_epi32(a, b); }
static TENON_INLINE IVec isub(IVec a, IVec b) { return _mm512_sub_epi32(a, b); }
static TENON_INLINE IVec imul(IVec a, IVec b) { return _mm512_mullo_epi32(a, b); }
static TENON_INLINE IVec iset16(int32_t x) { return _mm512_set1_epi16(static_cast<int16_t>(x)); }
static TENON_INLINE IVec iadd16(IVec a, IVec b) { return _mm512_add_epi16(a, b); }
static TENON_INLINE IVec isub16(IVec a, IVec b) { return _mm512_sub_epi16(a, b); }
static TENON_INLINE IVec quarter(IVec a) { return _mm512_srai_epi32(a, 2); }
// sum += products of x and the weights at w, of 16 bits or (two neighbours at a time) of 8. As intrinsics the compiler
// keeps sums on the stack.
static TENON_INLINE void add_int16(IVec& sum, IVec x, const void* w) {
  IVec t;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "=&v"(t) : "v"(x), "m"(*(const __m512i_u*)w));
}
static TENON_INLINE void add_int16(IVec& sum, IVec x, IVec w) {
  IVec t;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "=&v"(t) : "v"(x), "v"(w));
}
static TENON_INLINE void add_pairs(IVec& sum, IVec x, const void* w, IVec ones) {
  IVec t;
  __asm__("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
          : "+v"(sum), "=&v"(t)
          : "v"(x), "m"(*(const __m512i_u*)w), "v"(ones));
}
// The same as add_pairs for any weights, where has_int8_dot.
static TENON_INLINE void add_dots(IVec& sum, IVec x, IVec w) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}
// The same as add_int16, where has_int8_dot.
static TENON_INLINE void add_int16_dots(IVec& sum, IVec x, IVec w) {
  __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}
// Whole numbers of 16 bits.
static TENON_INLINE void store_int16(int16_t* p, IVec v) { _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(v)); }
static TENON_INLINE IVec ones16() { return _mm512_set1_epi16(1); }
// Bytes at even and at odd places as 16 bits, unsigned ones and signed ones.
static TENON_INLINE IVec even_u8(IVec v) { return _mm512_and_si512(v, _mm512_set1_epi16(255)); }
static TENON_INLINE IVec odd_u8(IVec v) { return _mm512_srli_epi16(v, 8); }
static TENON_INLINE IVec even_i8(IVec v) { return _mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8); }
static TENON_INLINE IVec odd_i8(IVec v) { return _mm512_srai_epi16(v, 8); }
// Four bytes, or two int16, in every 32 bits.
static TENON_INLINE IVec spread4(const void* p) { return iset1(*reinterpret_cast<const int32_t*>(p)); }
// 2 * kLanes bytes as 16 bits; neighbours of two such vectors side by side, in two halves; their sums back in order.
static TENON_INLINE IVec widen16(const uint8_t* p) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)p));
}
static TENON_INLINE IVec pair_low(IVec a, IVec b) { return _mm512_unpacklo_epi16(a, b); }
static TENON_INLINE IVec pair_high(IVec a, IVec b) { return _mm512_unpackhi_epi16(a, b); }
static TENON_INLINE void in_order(IVec& low, IVec& high) {
  const IVec first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
             second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const IVec a = low;
  low = _mm512_permutex2var_epi64(a, first, high);
  high = _mm512_permutex2var_epi64(a, second, high);
}
static TENON_INLINE Vec to_float(IVec v) { return _mm512_cvtepi32_ps(v); }
static TENON_INLINE IVec to_int(Vec v) { return _mm512_cvtps_epi32(v); }
// The larger of two numbers without a sign; what is no number is larger than any.
static TENON_INLINE Vec larger_or_nan(Vec a, Vec b) {
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
static TENON_INLINE IVec widen_u8(const uint8_t* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)); }
// Two vectors and a zero point in every 16 bits: values of 0 to 255 once that is added.
static TENON_INLINE void store_bytes(uint8_t* p, IVec a, IVec b, IVec zero_point) {
  const __m256i zero = _mm512_castsi512_si256(zero_point);
  const __m256i x = _mm256_add_epi16(_mm512_cvtepi32_epi16(a), zero),
                y = _mm256_add_epi16(_mm512_cvtepi32_epi16(b), zero);
  _mm_storeu_si128((__m128i*)p, _mm256_cvtepi16_epi8(x));
  _mm_storeu_si128((__m128i*)(p + kLanes), _mm256_cvtepi16_epi8(y));
}
// The first n, fewer than kBlock, of them; and of those at p into whole vectors.
static TENON_INLINE void store_bytes_n(uint8_t* p, IVec a, IVec b, IVec zero_point, int n) {
  const __m512i low = _mm512_castsi256_si512(_mm512_cvtepi32_epi16(a));
  const __m512i both = _mm512_inserti64x4(low, _mm512_cvtepi32_epi16(b), 1);
  _mm512_mask_cvtepi16_storeu_epi8(p, (1u << n) - 1, _mm512_add_epi16(both, zero_point));
}
static TENON_INLINE void load_bytes_n(uint8_t* to, const uint8_t* p, int n) {
  _mm256_storeu_si256((__m256i*)to, _mm256_maskz_loadu_epi8((1u << n) - 1, p));
}
// Two vectors as 16 bits; and the zero point added, both saturating; four such vectors as bytes, one behind the other.
static TENON_INLINE IVec pack_int16(IVec a, IVec b) { return _mm512_packs_epi32(a, b); }
static TENON_INLINE IVec to_int16(IVec a, IVec b, IVec zero_point) {
  return _mm512_adds_epi16(pack_int16(a, b), zero_point);
}
static TENON_INLINE IVec order_of_bytes() {
  return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}
static TENON_INLINE IVec to_bytes(IVec ab, IVec cd) {
  return _mm512_permutexvar_epi32(order_of_bytes(), _mm512_packus_epi16(ab, cd));
}
static TENON_INLINE IVec to_bytes_in_lanes(IVec ab, IVec cd) { return _mm512_packus_epi16(ab, cd); }
// Four vectors of channels, or the first n of them.
template <bool kWhole>
static TENON_INLINE IVec load_channels(const uint8_t* p, int n) {
  return kWhole ? iload(p) : _mm512_maskz_loadu_epi8((uint64_t{1} << n) - 1, p);
}
template <bool kWhole>
static TENON_INLINE void store_channels(uint8_t* p, IVec v, int n) {
  if (kWhole) istore(p, v);
  else _mm512_mask_storeu_epi8(p, (uint64_t{1} << n) - 1, v);
}
// Vector i of four: three bytes and a zero, or four bytes, in 32 bits.
template <int i>
static TENON_INLINE IVec interleaved(IVec a, IVec b, IVec c) {
  const IVec ab = i < 2 ? _mm512_unpacklo_epi8(a, b) : _mm512_unpackhi_epi8(a, b);
  const IVec c0 = i < 2 ? _mm512_unpacklo_epi8(c, izero()) : _mm512_unpackhi_epi8(c, izero());
  return i % 2 ? _mm512_unpackhi_epi16(ab, c0) : _mm512_unpacklo_epi16(ab, c0);
}
template <int i>
static TENON_INLINE IVec interleaved(IVec a, IVec b, IVec c, IVec d) {
  const IVec ab = i < 2 ? _mm512_unpacklo_epi8(a, b) : _mm512_unpackhi_epi8(a, b);
  const IVec cd = i < 2 ? _mm512_unpacklo_epi8(c, d) : _mm512_unpackhi_epi8(c, d);
  return i % 2 ? _mm512_unpackhi_epi16(ab, cd) : _mm512_unpacklo_epi16(ab, cd);
}
static TENON_INLINE IVec iset8(int32_t x) { return _mm512_set1_epi8(static_cast<int8_t>(x)); }
static TENON_INLINE IVec clamp_bytes(IVec v, IVec low, IVec high) {
  return _mm512_min_epu8(high, _mm512_max_epu8(low, v));
}
// Half i of two, quarter i of four; the first n bytes of them where n is not negative.
template <int i>
static TENON_INLINE void store_half(uint8_t* p, IVec v, int n) {
  const __m256i half = _mm512_extracti64x4_epi64(v, i);
  if (n < 0) _mm256_storeu_si256((__m256i*)p, half);
  else _mm256_mask_storeu_epi8(p, (1u << n) - 1, half);
}
template <int i>
static TENON_INLINE void store_quarter(uint8_t* p, IVec v, int n) {
  const __m128i quarter = _mm512_extracti32x4_epi32(v, i);
  if (n < 0) _mm_storeu_si128((__m128i*)p, quarter);
  else _mm_mask_storeu_epi8(p, static_cast<__mmask16>((1u << n) - 1), quarter);
}

#elif defined(__AVX2__)

using IVec = __m256i;
static TENON_INLINE IVec izero() { return _mm256_setzero_si256(); }
static TENON_INLINE IVec iset1(int32_t x) { return _mm256_set1_epi32(x); }
static TENON_INLINE IVec iload(const void* p) { return _mm256_loadu_si256((const __m256i*)p); }
static TENON_INLINE void istore(void* p, IVec v) { _mm256_storeu_si256((__m256i*)p, v); }
static TENON_INLINE IVec iadd(IVec a, IVec b) { return _mm256_add_epi32(a, b); }
static TENON_INLINE IVec isub(IVec a, IVec b) { return _mm256_sub_epi32(a, b); }
static TENON_INLINE IVec imul(IVec a, IVec b) { return _mm256_mullo_epi32(a, b); }
static TENON_INLINE IVec iset16(int32_t x) { return _mm256_set1_epi16(static_cast<int16_t>(x)); }
static TENON_INLINE IVec iadd16(IVec a, IVec b) { return _mm256_add_epi16(a, b); }
static TENON_INLINE IVec isub16(IVec a, IVec b) { return _mm256_sub_epi16(a, b); }
static TENON_INLINE IVec quarter(IVec a) { return _mm256_srai_epi32(a, 2); }
// sum += products of x and the weights at w, of 16 bits or (two neighbours at a time) of 8. As intrinsics the compiler
// keeps sums on the stack.
static TENON_INLINE void add_int16(IVec& sum, IVec x, const void* w) {
  IVec t;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(t) : "x"(x), "m"(*(const __m256i_u*)w));
}
static TENON_INLINE void add_int16(IVec& sum, IVec x, IVec w) {
  IVec t;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(t) : "x"(x), "x"(w));
}
static TENON_INLINE void add_pairs(IVec& sum, IVec x, const void* w, IVec ones) {
  IVec t;
  __asm__("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
          : "+x"(sum), "=&x"(t)
          : "x"(x), "m"(*(const __m256i_u*)w), "x"(ones));
}
static TENON_INLINE void add_dots(IVec& sum, IVec x, IVec w) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
}
static TENON_INLINE void add_int16_dots(IVec& sum, IVec x, IVec w) {
  __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(x), "x"(w));
}
static TENON_INLINE void store_int16(int16_t* p, IVec v) {
  _mm_storeu_si128((__m128i*)p, _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}
static TENON_INLINE IVec ones16() { return _mm256_set1_epi16(1); }
static TENON_INLINE IVec even_u8(IVec v) { return _mm256_and_si256(v, _mm256_set1_epi16(255)); }
static TENON_INLINE IVec odd_u8(IVec v) { return _mm256_srli_epi16(v, 8); }
static TENON_INLINE IVec even_i8(IVec v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
static TENON_INLINE IVec odd_i8(IVec v) { return _mm256_srai_epi16(v, 8); }
static TENON_INLINE IVec spread4(const void* p) {
  return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(p)));
}
static TENON_INLINE IVec widen16(const uint8_t* p) { return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)p)); }
static TENON_INLINE IVec pair_low(IVec a, IVec b) { return _mm256_unpacklo_epi16(a, b); }
static TENON_INLINE IVec pair_high(IVec a, IVec b) { return _mm256_unpackhi_epi16(a, b); }
static TENON_INLINE void in_order(IVec& low, IVec& high) {
  const IVec a = low;
  low = _mm256_permute2x128_si256(a, high, 0x20);
  high = _mm256_permute2x128_si256(a, high, 0x31);
}
static TENON_INLINE Vec to_float(IVec v) { return _mm256_cvtepi32_ps(v); }
static TENON_INLINE IVec to_int(Vec v) { return _mm256_cvtps_epi32(v); }
static TENON_INLINE Vec larger_or_nan(Vec a, Vec b) {
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
static TENON_INLINE IVec widen_u8(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
}
static TENON_INLINE void store_bytes(uint8_t* p, IVec a, IVec b, IVec zero_point) {
  const IVec both = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8), v = _mm256_add_epi16(both, zero_point);
  _mm_storeu_si128((__m128i*)p, _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}
static TENON_INLINE IVec pack_int16(IVec a, IVec b) { return _mm256_packs_epi32(a, b); }
static TENON_INLINE IVec to_int16(IVec a, IVec b, IVec zero_point) {
  return _mm256_adds_epi16(pack_int16(a, b), zero_point);
}
static TENON_INLINE IVec to_bytes(IVec ab, IVec cd) {
  const IVec order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order);
}
static TENON_INLINE IVec to_bytes_in_lanes(IVec ab, IVec cd) { return _mm256_packus_epi16(ab, cd); }
template <bool kWhole>
static TENON_INLINE IVec load_channels(const uint8_t* p, int n) {
  if (kWhole) return iload(p);
  alignas(32) uint8_t bytes[32] = {};
  __builtin_memcpy(bytes, p, n);
  return iload(bytes);
}
template <bool kWhole>
static TENON_INLINE void store_channels(uint8_t* p, IVec v, int n) {
  if (kWhole) istore(p, v);
  else __builtin_memcpy(p, &v, n);
}
template <int i>
static TENON_INLINE IVec interleaved(IVec a, IVec b, IVec c) {
  const IVec ab = i < 2 ? _mm256_unpacklo_epi8(a, b) : _mm256_unpackhi_epi8(a, b);
  const IVec c0 = i < 2 ? _mm256_unpacklo_epi8(c, izero()) : _mm256_unpackhi_epi8(c, izero());
  return i % 2 ? _mm256_unpackhi_epi16(ab, c0) : _mm256_unpacklo_epi16(ab, c0);
}
template <int i>
static TENON_INLINE IVec interleaved(IVec a, IVec b, IVec c, IVec d) {
  const IVec ab = i < 2 ? _mm256_unpacklo_epi8(a, b) : _mm256_unpackhi_epi8(a, b);
  const IVec cd = i < 2 ? _mm256_unpacklo_epi8(c, d) : _mm256_unpackhi_epi8(c, d);
  return i % 2 ? _mm256_unpackhi_epi16(ab, cd) : _mm256_unpacklo_epi16(ab, cd);
}
static TENON_INLINE IVec iset8(int32_t x) { return _mm256_set1_epi8(static_cast<int8_t>(x)); }
static TENON_INLINE IVec clamp_bytes(IVec v, IVec low, IVec high) {
  return _mm256_min_epu8(high, _mm256_max_epu8(low, v));
}
template <int i>
static TENON_INLINE void store_half(uint8_t* p, IVec v, int n) {
  const __m128i half = _mm256_extracti128_si256(v, i);
  if (n < 0) _mm_storeu_si128((__m128i*)p, half);
  else __builtin_memcpy(p, &half, n & 15);
}
template <int i>
static TENON_INLINE void store_quarter(uint8_t* p, IVec v, int n) {
  const int64_t quarter = _mm256_extract_epi64(v, i);
  __builtin_memcpy(p, &quarter, n < 0 ? 8 : n);
}

#else

using IVec = __m128i;
static TENON_INLINE IVec izero() { return _mm_setzero_si128(); }
static TENON_INLINE IVec iset1(int32_t x) { return _mm_set1_epi32(x); }
static TENON_INLINE IVec iload(const void* p) { return _mm_loadu_si128((const __m128i*)p); }
static TENON_INLINE void istore(void* p, IVec v) { _mm_storeu_si128((__m128i*)p, v); }
static TENON_INLINE IVec iadd(IVec a, IVec b) { return _mm_add_epi32(a, b); }
static TENON_INLINE IVec isub(IVec a, IVec b) { return _mm_sub_epi32(a, b); }
static TENON_INLINE IVec imul(IVec a, IVec b) { return _mm_mullo_epi32(a, b); }
static TENON_INLINE IVec iset16(int32_t x) { return _mm_set1_epi16(static_cast<int16_t>(x)); }
static TENON_INLINE IVec iadd16(IVec a, IVec b) { return _mm_add_epi16(a, b); }
static TENON_INLINE IVec isub16(IVec a, IVec b) { return _mm_sub_epi16(a, b); }
static TENON_INLINE IVec quarter(IVec a) { return _mm_srai_epi32(a, 2); }
static TENON_INLINE void add_int16(IVec& sum, IVec x, IVec w) { sum = iadd(sum, _mm_madd_epi16(x, w)); }
static TENON_INLINE void add_int16(IVec& sum, IVec x, const void* w) { add_int16(sum, x, iload(w)); }
static TENON_INLINE void store_int16(int16_t* p, IVec v) { _mm_storel_epi64((__m128i*)p, _mm_packs_epi32(v, v)); }
static TENON_INLINE void add_pairs(IVec& sum, IVec x, const void* w, IVec ones) {
  sum = iadd(sum, _mm_madd_epi16(_mm_maddubs_epi16(x, iload(w)), ones));
}
static TENON_INLINE IVec ones16() { return _mm_set1_epi16(1); }
static TENON_INLINE IVec even_u8(IVec v) { return _mm_and_si128(v, _mm_set1_epi16(255)); }
static TENON_INLINE IVec odd_u8(IVec v) { return _mm_srli_epi16(v, 8); }
static TENON_INLINE IVec even_i8(IVec v) { return _mm_srai_epi16(_mm_slli_epi16(v, 8), 8); }
static TENON_INLINE IVec odd_i8(IVec v) { return _mm_srai_epi16(v, 8); }
static TENON_INLINE int32_t four_bytes(const void* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return bits;
}
static TENON_INLINE IVec spread4(const void* p) { return iset1(four_bytes(p)); }
static TENON_INLINE IVec widen16(const uint8_t* p) { return _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)p)); }
static TENON_INLINE IVec pair_low(IVec a, IVec b) { return _mm_unpacklo_epi16(a, b); }
static TENON_INLINE IVec pair_high(IVec a, IVec b) { return _mm_unpackhi_epi16(a, b); }
static TENON_INLINE void in_order(IVec&, IVec&) {}
static TENON_INLINE Vec to_float(IVec v) { return _mm_cvtepi32_ps(v); }
static TENON_INLINE IVec to_int(Vec v) { return _mm_cvtps_epi32(v); }
static TENON_INLINE Vec larger_or_nan(Vec a, Vec b) {
  return _mm_castsi128_ps(_mm_max_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
}
static TENON_INLINE IVec widen_u8(const uint8_t* p) { return _mm_cvtepu8_epi32(_mm_cvtsi32_si128(four_bytes(p))); }
static TENON_INLINE void store_bytes(uint8_t* p, IVec a, IVec b, IVec zero_point) {
  const __m128i both = _mm_add_epi16(_mm_packs_epi32(a, b), zero_point);
  _mm_storel_epi64((__m128i*)p, _mm_packus_epi16(both, both));
}
static TENON_INLINE IVec pack_int16(IVec a, IVec b) { return _mm_packs_epi32(a, b); }
static TENON_INLINE IVec to_int16(IVec a, IVec b, IVec zero_point) {
  return _mm_adds_epi16(pack_int16(a, b), zero_point);
}
static TENON_INLINE IVec to_bytes(IVec ab, IVec cd) { return _mm_packus_epi16(ab, cd); }
static TENON_INLINE IVec iset8(int32_t x) { return _mm_set1_epi8(static_cast<int8_t>(x)); }
static TENON_INLINE IVec clamp_bytes(IVec v, IVec low, IVec high) { return _mm_min_epu8(high, _mm_max_epu8(low, v)); }
template <int i>
static TENON_INLINE void store_half(uint8_t* p, IVec v, int n) {
  const int64_t half = _mm_extract_epi64(v, i);
  __builtin_memcpy(p, &half, n < 0 ? 8 : n);
}
template <int i>
static TENON_INLINE void store_quarter(uint8_t* p, IVec v, int n) {
  const int32_t quarter = _mm_extract_epi32(v, i);
  __builtin_memcpy(p, &quarter, n < 0 ? 4 : n);
}

#endif

#ifndef __AVX512F__
static TENON_INLINE void store_bytes_n(uint8_t* p, IVec a, IVec b, IVec zero_point, int n) {
  alignas(64) uint8_t bytes[kBlock];
  store_bytes(bytes, a, b, zero_point);
  __builtin_memcpy(p, bytes, n);
}
static TENON_INLINE void load_bytes_n(uint8_t* to, const uint8_t* p, int n) { __builtin_memcpy(to, p, n); }
#endif

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
