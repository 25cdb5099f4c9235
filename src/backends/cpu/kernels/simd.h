// SPDX-License-Identifier: Apache-2.0
// Vectors of the instruction set this copy is compiled for. Only files built by tenon_isa_sources include it.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define TENON_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define TENON_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TENON_UNROLL _Pragma("GCC unroll 64")
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {

#if defined(__AVX512F__)

using Vec = __m512;
constexpr int kLanes = 16;
constexpr int kTilePixels = 14;  // 28 accumulators of 32 registers

static TENON_INLINE Vec zero() { return _mm512_setzero_ps(); }
static TENON_INLINE Vec set1(float x) { return _mm512_set1_ps(x); }
static TENON_INLINE Vec load(const float* p) { return _mm512_loadu_ps(p); }
// Floats of 16 bits, cast exactly.
static TENON_INLINE Vec load_f16(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
static TENON_INLINE Vec load_bf16(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static TENON_INLINE void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
static TENON_INLINE Vec load_n(const float* p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
static TENON_INLINE void store_n(float* p, Vec v, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v); }
static TENON_INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static TENON_INLINE Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
static TENON_INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static TENON_INLINE Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
#ifdef TENON_TWO_ROUNDINGS
static TENON_INLINE Vec fma(Vec a, Vec b, Vec c) { return add(mul(a, b), c); }
static TENON_INLINE Vec fnma(Vec a, Vec b, Vec c) { return sub(c, mul(a, b)); }
#else
static TENON_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static TENON_INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
#endif
// sum += a * b in place; as an intrinsic the compiler moves sums between registers and spills some.
static TENON_INLINE void add_product(Vec& sum, Vec a, Vec b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
// A NaN in the second operand comes through; nan_or() gives that of the first.
static TENON_INLINE Vec max(Vec bound, Vec x) { return _mm512_max_ps(bound, x); }
static TENON_INLINE Vec min(Vec bound, Vec x) { return _mm512_min_ps(bound, x); }
static TENON_INLINE Vec round(Vec x) { return _mm512_roundscale_ps(x, 8); }
static TENON_INLINE Vec floor(Vec x) { return _mm512_roundscale_ps(x, 9); }
static TENON_INLINE Vec ceil(Vec x) { return _mm512_roundscale_ps(x, 10); }
static TENON_INLINE Vec sqrt(Vec x) { return _mm512_sqrt_ps(x); }
// x 2^n where that is normal, and x 4^n wherever it lies.
static TENON_INLINE Vec scale_pow2(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }
// The exponent of a normal number above 0, whose significand lies in [1, 2).
static TENON_INLINE Vec exponent_of(Vec x) { return _mm512_getexp_ps(x); }
static TENON_INLINE Vec bit_and(Vec a, Vec b) { return _mm512_and_ps(a, b); }
static TENON_INLINE Vec scale_pow4(Vec x, Vec n) { return _mm512_scalef_ps(x, _mm512_add_ps(n, n)); }
static TENON_INLINE Vec bit_or(Vec a, Vec b) { return _mm512_or_ps(a, b); }
static TENON_INLINE Vec bit_xor(Vec a, Vec b) { return _mm512_xor_ps(a, b); }
static TENON_INLINE Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}
static TENON_INLINE Vec nan_or(Vec a, Vec x) {
  return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

// One rounding in every file; 1 / x to about 2^-11; the largest lane in all.
static TENON_INLINE Vec fused(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
static TENON_INLINE Vec negated_fused(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a, b, c); }
static TENON_INLINE Vec fused_minus(Vec a, Vec b, Vec c) { return _mm512_fmsub_ps(a, b, c); }
static TENON_INLINE Vec near_reciprocal(Vec x) { return _mm512_rcp14_ps(x); }
static TENON_INLINE Vec largest(Vec v) { return set1(_mm512_reduce_max_ps(v)); }
// Not where a lane is NaN.
static TENON_INLINE bool all_less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) == 0xffff; }
static TENON_INLINE bool any_less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) != 0; }

// Lane i of the result is lane index[i] of v.
static TENON_INLINE Vec permute(Vec v, const int32_t* index) {
  return _mm512_permutexvar_ps(_mm512_loadu_si512(index), v);
}

#elif defined(__AVX2__)

using Vec = __m256;
constexpr int kLanes = 8;
constexpr int kTilePixels = 6;  // 12 accumulators of 16 registers

alignas(64) static const int32_t kMaskTable[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static TENON_INLINE __m256i mask_n(int n) { return _mm256_loadu_si256((const __m256i*)(kMaskTable + 8 - n)); }

static TENON_INLINE Vec zero() { return _mm256_setzero_ps(); }
static TENON_INLINE Vec set1(float x) { return _mm256_set1_ps(x); }
static TENON_INLINE Vec load(const float* p) { return _mm256_loadu_ps(p); }
// Floats of 16 bits, cast exactly.
static TENON_INLINE Vec load_f16(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
static TENON_INLINE Vec load_bf16(const uint16_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static TENON_INLINE void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
static TENON_INLINE Vec load_n(const float* p, int n) { return _mm256_maskload_ps(p, mask_n(n)); }
static TENON_INLINE void store_n(float* p, Vec v, int n) { _mm256_maskstore_ps(p, mask_n(n), v); }
static TENON_INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
static TENON_INLINE Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
static TENON_INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
static TENON_INLINE Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
#ifdef TENON_TWO_ROUNDINGS
static TENON_INLINE Vec fma(Vec a, Vec b, Vec c) { return add(mul(a, b), c); }
static TENON_INLINE Vec fnma(Vec a, Vec b, Vec c) { return sub(c, mul(a, b)); }
#else
static TENON_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static TENON_INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
#endif
// sum += a * b in place; as an intrinsic the compiler moves sums between registers and spills some.
static TENON_INLINE void add_product(Vec& sum, Vec a, Vec b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
}
// A NaN in the second operand comes through.
static TENON_INLINE Vec max(Vec bound, Vec x) { return _mm256_max_ps(bound, x); }
static TENON_INLINE Vec min(Vec bound, Vec x) { return _mm256_min_ps(bound, x); }
static TENON_INLINE Vec round(Vec x) { return _mm256_round_ps(x, 8); }
static TENON_INLINE Vec floor(Vec x) { return _mm256_round_ps(x, 9); }
static TENON_INLINE Vec ceil(Vec x) { return _mm256_round_ps(x, 10); }
static TENON_INLINE Vec sqrt(Vec x) { return _mm256_sqrt_ps(x); }
static TENON_INLINE Vec scale_pow2(Vec x, Vec n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
static TENON_INLINE Vec exponent_of(Vec x) {
  const __m256i biased = _mm256_srli_epi32(_mm256_castps_si256(x), 23);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)));
}
static TENON_INLINE Vec bit_and(Vec a, Vec b) { return _mm256_and_ps(a, b); }
static TENON_INLINE Vec scale_pow4(Vec x, Vec n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  const __m256 once = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
  return mul(once, _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000))));
}
static TENON_INLINE Vec bit_or(Vec a, Vec b) { return _mm256_or_ps(a, b); }
static TENON_INLINE Vec bit_xor(Vec a, Vec b) { return _mm256_xor_ps(a, b); }
static TENON_INLINE Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static TENON_INLINE Vec nan_or(Vec a, Vec x) { return _mm256_blendv_ps(x, a, _mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }

static TENON_INLINE Vec fused(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static TENON_INLINE Vec negated_fused(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a, b, c); }
static TENON_INLINE Vec fused_minus(Vec a, Vec b, Vec c) { return _mm256_fmsub_ps(a, b, c); }
static TENON_INLINE Vec near_reciprocal(Vec x) { return _mm256_rcp_ps(x); }
static TENON_INLINE Vec largest(Vec v) {
  v = max(v, _mm256_permute2f128_ps(v, v, 1));
  v = max(v, _mm256_permute_ps(v, 0x4e));
  return max(v, _mm256_permute_ps(v, 0xb1));
}
static TENON_INLINE bool all_less(Vec a, Vec b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) == 0xff;
}
static TENON_INLINE bool any_less(Vec a, Vec b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) != 0; }

static TENON_INLINE Vec permute(Vec v, const int32_t* index) {
  return _mm256_permutevar8x32_ps(v, _mm256_loadu_si256((const __m256i*)index));
}

#else

using Vec = __m128;
constexpr int kLanes = 4;
constexpr int kTilePixels = 6;

static TENON_INLINE Vec zero() { return _mm_setzero_ps(); }
static TENON_INLINE Vec set1(float x) { return _mm_set1_ps(x); }
static TENON_INLINE Vec load(const float* p) { return _mm_loadu_ps(p); }
// Floats of 16 bits, cast exactly, f16 by its bits: the exponent's bias is another, infinite numbers and NaN have an
// exponent of their own, and the smallest numbers are what they add to 0.5, whose last bit they count in.
static TENON_INLINE Vec load_f16(const uint16_t* p) {
  const __m128i wide = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i*)p));
  const __m128i sign = _mm_slli_epi32(_mm_and_si128(wide, _mm_set1_epi32(0x8000)), 16);
  const __m128i magnitude = _mm_and_si128(wide, _mm_set1_epi32(0x7fff));
  const __m128i biased = _mm_add_epi32(_mm_slli_epi32(magnitude, 13), _mm_set1_epi32(112 << 23));
  const __m128i beyond = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff)),
                infinite = _mm_and_si128(beyond, _mm_set1_epi32(0x7f800000));
  const __m128 half = _mm_set1_ps(0.5f);
  const __m128 tiny = _mm_sub_ps(_mm_castsi128_ps(_mm_or_si128(magnitude, _mm_castps_si128(half))), half);
  const __m128i is_tiny = _mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x400));
  const __m128i bits = _mm_blendv_epi8(_mm_or_si128(biased, infinite), _mm_castps_si128(tiny), is_tiny);
  return _mm_castsi128_ps(_mm_or_si128(bits, sign));
}
static TENON_INLINE Vec load_bf16(const uint16_t* p) {
  const __m128i wide = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i*)p));
  return _mm_castsi128_ps(_mm_slli_epi32(wide, 16));
}
static TENON_INLINE void store(float* p, Vec v) { _mm_storeu_ps(p, v); }
static TENON_INLINE Vec load_n(const float* p, int n) {
  alignas(16) float lanes[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; ++i) lanes[i] = p[i];
  return _mm_load_ps(lanes);
}
static TENON_INLINE void store_n(float* p, Vec v, int n) {
  alignas(16) float lanes[4];
  _mm_store_ps(lanes, v);
  for (int i = 0; i < n; ++i) p[i] = lanes[i];
}
static TENON_INLINE Vec add(Vec a, Vec b) { return _mm_add_ps(a, b); }
static TENON_INLINE Vec sub(Vec a, Vec b) { return _mm_sub_ps(a, b); }
static TENON_INLINE Vec mul(Vec a, Vec b) { return _mm_mul_ps(a, b); }
static TENON_INLINE Vec div(Vec a, Vec b) { return _mm_div_ps(a, b); }
// a b + c of two lanes as doubles whose last bit is set where they are not exact, so that rounding them to floats is
// the only rounding. Source: S. Boldo and G. Melquiond, Emulation of FMA and correctly rounded sums, 2008.
static TENON_INLINE __m128d exact_to_odd(__m128d a, __m128d b, __m128d c) {
  const __m128d product = _mm_mul_pd(a, b), sum = _mm_add_pd(product, c), of_c = _mm_sub_pd(sum, product);
  const __m128d error = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, of_c)), _mm_sub_pd(c, of_c));
  const __m128i bits = _mm_castpd_si128(sum), one = _mm_set1_epi64x(1), none = _mm_setzero_si128();
  const __m128d inexact = _mm_cmplt_pd(_mm_setzero_pd(), _mm_andnot_pd(_mm_set1_pd(-0.0), error));
  const __m128i even = _mm_cmpeq_epi64(_mm_and_si128(bits, one), none);
  const __m128i toward_zero = _mm_cmpgt_epi64(none, _mm_castpd_si128(_mm_xor_pd(error, sum)));
  const __m128i step = _mm_and_si128(_mm_or_si128(toward_zero, one), _mm_and_si128(_mm_castpd_si128(inexact), even));
  return _mm_castsi128_pd(_mm_add_epi64(bits, step));
}
// Called, as so many steps in each loop would take minutes to compile.
[[maybe_unused]] static __attribute__((noinline)) Vec fused(Vec a, Vec b, Vec c) {
  const __m128d low = exact_to_odd(_mm_cvtps_pd(a), _mm_cvtps_pd(b), _mm_cvtps_pd(c));
  const __m128d high = exact_to_odd(_mm_cvtps_pd(_mm_movehl_ps(a, a)), _mm_cvtps_pd(_mm_movehl_ps(b, b)),
                                    _mm_cvtps_pd(_mm_movehl_ps(c, c)));
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
#ifdef TENON_FUSED_STEPS
static TENON_INLINE Vec fma(Vec a, Vec b, Vec c) { return fused(a, b, c); }
static TENON_INLINE Vec fnma(Vec a, Vec b, Vec c) { return fused(_mm_xor_ps(a, _mm_set1_ps(-0.f)), b, c); }
#else
static TENON_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
static TENON_INLINE Vec fnma(Vec a, Vec b, Vec c) { return _mm_sub_ps(c, _mm_mul_ps(a, b)); }
#endif
static TENON_INLINE void add_product(Vec& sum, Vec a, Vec b) { sum = fma(a, b, sum); }
// A NaN in the second operand comes through.
static TENON_INLINE Vec max(Vec bound, Vec x) { return _mm_max_ps(bound, x); }
static TENON_INLINE Vec min(Vec bound, Vec x) { return _mm_min_ps(bound, x); }
static TENON_INLINE Vec round(Vec x) { return _mm_round_ps(x, 8); }
static TENON_INLINE Vec floor(Vec x) { return _mm_round_ps(x, 9); }
static TENON_INLINE Vec ceil(Vec x) { return _mm_round_ps(x, 10); }
static TENON_INLINE Vec sqrt(Vec x) { return _mm_sqrt_ps(x); }
static TENON_INLINE Vec scale_pow2(Vec x, Vec n) {
  return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(x), _mm_slli_epi32(_mm_cvtps_epi32(n), 23)));
}
static TENON_INLINE Vec exponent_of(Vec x) {
  return _mm_cvtepi32_ps(_mm_sub_epi32(_mm_srli_epi32(_mm_castps_si128(x), 23), _mm_set1_epi32(127)));
}
static TENON_INLINE Vec bit_and(Vec a, Vec b) { return _mm_and_ps(a, b); }
static TENON_INLINE Vec scale_pow4(Vec x, Vec n) {
  const __m128i exponent = _mm_slli_epi32(_mm_cvtps_epi32(n), 23);
  const __m128 once = _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(x), exponent));
  return mul(once, _mm_castsi128_ps(_mm_add_epi32(exponent, _mm_set1_epi32(0x3f800000))));
}
static TENON_INLINE Vec bit_or(Vec a, Vec b) { return _mm_or_ps(a, b); }
static TENON_INLINE Vec bit_xor(Vec a, Vec b) { return _mm_xor_ps(a, b); }
static TENON_INLINE Vec select_less(Vec a, Vec b, Vec yes, Vec no) {
  return _mm_blendv_ps(no, yes, _mm_cmplt_ps(a, b));
}
static TENON_INLINE bool all_less(Vec a, Vec b) { return _mm_movemask_ps(_mm_cmplt_ps(a, b)) == 15; }
static TENON_INLINE bool any_less(Vec a, Vec b) { return _mm_movemask_ps(_mm_cmplt_ps(a, b)) != 0; }
static TENON_INLINE Vec nan_or(Vec a, Vec x) { return _mm_blendv_ps(x, a, _mm_cmpunord_ps(a, a)); }
static TENON_INLINE Vec permute(Vec v, const int32_t* index) {
  alignas(16) float lanes[4];
  _mm_store_ps(lanes, v);
  return _mm_setr_ps(lanes[index[0]], lanes[index[1]], lanes[index[2]], lanes[index[3]]);
}

#endif

constexpr int kBlock = 2 * kLanes;  // output channels of one weight panel

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
