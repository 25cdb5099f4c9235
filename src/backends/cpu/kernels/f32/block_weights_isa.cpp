// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/block_weights.h"

#include "backends/cpu/kernels/f32/direct.h"
#include "backends/cpu/kernels/f32/fixed_rows.h"
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Where in its 32 bits the integer of a step begins.
constexpr int bit_of(int step) { return step % 4 * 8 + step / 4 * 4; }

#if defined(__AVX512F__)

using Integers = __m512i;
TENON_INLINE Integers load_integers(const std::byte* p) { return _mm512_loadu_si512(p); }
// Four bits of each lane as floats: numbers of a table, which is indexed by the lowest bits alone.
template <int kStep>
TENON_INLINE Vec nibbles(Integers v) {
  const Vec table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  return _mm512_permutexvar_ps(kStep ? _mm512_srli_epi32(v, bit_of(kStep)) : v, table);
}
TENON_INLINE Vec load_bytes(const std::byte* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
}

#elif defined(__AVX2__)

using Integers = __m256i;
// Less the middle of the range, as signed ones.
TENON_INLINE Integers load_integers(const std::byte* p) {
  return _mm256_xor_si256(_mm256_loadu_si256((const __m256i*)p), _mm256_set1_epi8((char)0x88));
}
template <int kStep>
TENON_INLINE Vec nibbles(Integers v) {
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(kStep == 7 ? v : _mm256_slli_epi32(v, 28 - bit_of(kStep)), 28));
}
TENON_INLINE Vec load_bytes(const std::byte* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
}

#else

using Integers = __m128i;
TENON_INLINE Integers load_integers(const std::byte* p) {
  return _mm_xor_si128(_mm_loadu_si128((const __m128i*)p), _mm_set1_epi8((char)0x88));
}
template <int kStep>
TENON_INLINE Vec nibbles(Integers v) {
  return _mm_cvtepi32_ps(_mm_srai_epi32(kStep == 7 ? v : _mm_slli_epi32(v, 28 - bit_of(kStep)), 28));
}
TENON_INLINE Vec load_bytes(const std::byte* p) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(bytes)));
}

#endif

TENON_INLINE Vec load_scales(const std::byte* p, bool f16, int half) {
  return f16 ? load_f16((const uint16_t*)p + half * kLanes) : load((const float*)p + half * kLanes);
}

// Where the parts of a panel's block lie.
struct Block {
  const std::byte *scales, *zeros, *integers;
};
TENON_INLINE Block block_at(const BlockWeights& w, const std::byte* p) {
  const std::byte* const zeros = p + kBlock * (w.f16_scales ? 2 : 4);
  return {p, zeros, zeros + (w.has_zeros ? kBlock : 0)};
}

// Eight steps of K at most, in two vectors of outputs each: f.operator()<step>(low, high).
template <int kBits, int kSteps, class F>
TENON_INLINE void each_step(const std::byte* p, const F& f) {
  const auto step = [&]<int kStep>() __attribute__((always_inline)) {
    if constexpr (kStep < kSteps) {
      if constexpr (kBits == 8) {
        f.template operator()<kStep>(load_bytes(p + kStep * kBlock), load_bytes(p + kStep * kBlock + kLanes));
      } else {
        const Integers low = load_integers(p), high = load_integers(p + 4 * kLanes);
        f.template operator()<kStep>(nibbles<kStep>(low), nibbles<kStep>(high));
      }
    }
  };
  step.template operator()<0>(), step.template operator()<1>(), step.template operator()<2>();
  step.template operator()<3>(), step.template operator()<4>(), step.template operator()<5>();
  step.template operator()<6>(), step.template operator()<7>();
}

// The same for a number of steps that is not known before.
template <int kBits, class F>
TENON_INLINE void last_steps(const std::byte* p, int64_t steps, const F& f) {
  each_step<kBits, 7>(
      p, [&]<int kStep>(Vec low, Vec high) __attribute__((always_inline)) {
        if (kStep < steps) f.template operator()<kStep>(low, high);
      });
}

// Rows have sums of their own for every kChains-th step, so that the multipliers do not wait for each other.
template <int kBits, int R>
void multiply_panel(const BlockWeights& w, const float* a, int64_t lda, const float* sums, const std::byte* p,
                    Vec (&total)[R][2]) {
  constexpr int kChains = R == 1 ? 4 : R == 2 ? 2 : 1;
  constexpr int64_t kChunk = kBlock * kBits, kAhead = 1024;
  const int64_t blocks = block_count(w), pitch = packed_block_bytes(w, kBlock);
  TENON_UNROLL
  for (int i = 0; i < R; ++i) total[i][0] = total[i][1] = zero();
  for (int64_t at = 0; at < blocks; ++at, p += pitch) {
    const Block block = block_at(w, p);
    const float* from = a + at * w.block;
    const int64_t steps = w.k - at * w.block < w.block ? w.k - at * w.block : w.block;
    Vec part[R][kChains][2];
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      TENON_UNROLL
      for (int c = 0; c < kChains; ++c) part[i][c][0] = part[i][c][1] = zero();
    }
    const std::byte* integers = block.integers;
    const auto add_step = [&]<int kStep>(Vec low, Vec high) __attribute__((always_inline)) {
      TENON_UNROLL
      for (int i = 0; i < R; ++i) {
        const Vec x = set1(from[i * lda + kStep]);
        part[i][kStep % kChains][0] = fma(x, low, part[i][kStep % kChains][0]);
        part[i][kStep % kChains][1] = fma(x, high, part[i][kStep % kChains][1]);
      }
    };
    int64_t k = 0;
    for (; k + 8 <= steps; k += 8, integers += kChunk, from += 8) {
      TENON_UNROLL
      for (int64_t at = 0; at < kChunk; at += 64) _mm_prefetch((const char*)integers + kAhead + at, _MM_HINT_T0);
      each_step<kBits, 8>(integers, add_step);
    }
    if (k < steps) last_steps<kBits>(integers, steps - k, add_step);
    TENON_UNROLL
    for (int h = 0; h < 2; ++h) {
      const Vec scale = load_scales(block.scales, w.f16_scales, h);
      const Vec zero_point = w.has_zeros ? load_bytes(block.zeros + h * kLanes) : zero();
      TENON_UNROLL
      for (int i = 0; i < R; ++i) {
        Vec sum = part[i][0][h];
        if constexpr (kChains > 1) sum = add(sum, part[i][1][h]);
        if constexpr (kChains > 2) sum = add(sum, add(part[i][2][h], part[i][3][h]));
        if (w.has_zeros) sum = fnma(set1(sums[i * blocks + at]), zero_point, sum);
        total[i][h] = fma(sum, scale, total[i][h]);
      }
    }
  }
}

template <int kBits, int R>
__attribute__((noinline)) void multiply_rows(const BlockWeights& w, const float* a, int64_t lda, const float* sums,
                                             float* c, int64_t ldc, int64_t begin, int64_t end) {
  for (int64_t panel = begin; panel < end; ++panel) {
    Vec total[R][2];
    multiply_panel<kBits, R>(w, a, lda, sums, w.packed + panel * panel_bytes(w, kBlock), total);
    for (int i = 0; i < R; ++i)
      for (int h = 0; h < 2; ++h) {
        const int64_t column = panel * kBlock + h * kLanes, left = w.n - column;
        if (left >= kLanes) store(c + i * ldc + column, total[i][h]);
        else if (left > 0) store_n(c + i * ldc + column, total[i][h], (int)left);
      }
  }
}

template <int kBits>
void multiply_bits(const BlockWeights& w, const float* a, int64_t lda, int64_t rows, const float* sums, float* c,
                   int64_t ldc, int64_t begin, int64_t end) {
  switch (rows) {
    case 1: return multiply_rows<kBits, 1>(w, a, lda, sums, c, ldc, begin, end);
    case 2: return multiply_rows<kBits, 2>(w, a, lda, sums, c, ldc, begin, end);
    case 3: return multiply_rows<kBits, 3>(w, a, lda, sums, c, ldc, begin, end);
    default: return multiply_rows<kBits, 4>(w, a, lda, sums, c, ldc, begin, end);
  }
}

void multiply(const BlockWeights& w, const float* a, int64_t lda, int64_t rows, const float* sums, float* c,
              int64_t ldc, int64_t begin, int64_t end) {
  (w.bits == 8 ? multiply_bits<8> : multiply_bits<4>)(w, a, lda, rows, sums, c, ldc, begin, end);
}

template <int kBits>
void cast_bits(const BlockWeights& w, int64_t panel, float* to) {
  const std::byte* p = w.packed + panel * panel_bytes(w, kBlock);
  for (int64_t at = 0; at < block_count(w); ++at, p += packed_block_bytes(w, kBlock)) {
    const Block block = block_at(w, p);
    Vec scale[2], zero_point[2];
    for (int h = 0; h < 2; ++h) {
      scale[h] = load_scales(block.scales, w.f16_scales, h);
      zero_point[h] = w.has_zeros ? load_bytes(block.zeros + h * kLanes) : zero();
    }
    const int64_t steps = w.k - at * w.block < w.block ? w.k - at * w.block : w.block;
    const auto put = [&]<int kStep>(Vec low, Vec high) __attribute__((always_inline)) {
      store(to + kStep * kBlock, mul(sub(low, zero_point[0]), scale[0]));
      store(to + kStep * kBlock + kLanes, mul(sub(high, zero_point[1]), scale[1]));
    };
    const std::byte* integers = block.integers;
    int64_t k = 0;
    for (; k + 8 <= steps; k += 8, integers += kBlock * kBits, to += 8 * kBlock) each_step<kBits, 8>(integers, put);
    if (k < steps) last_steps<kBits>(integers, steps - k, put);
    to += (steps - k) * kBlock;
  }
}

void cast(const BlockWeights& w, int64_t panel, float* to) {
  (w.bits == 8 ? cast_bits<8> : cast_bits<4>)(w, panel, to);
}

void multiply_floats(const BlockWeights& w, const float* a, int64_t lda, int64_t rows, const float* floats, float* c,
                     int64_t ldc, int64_t panel) {
  const int64_t column = panel * kBlock, left = w.n - column;
  direct_ops.gemm_panel(a, lda, rows, floats, w.k, nullptr, c + column, ldc, (int)(left < kBlock ? left : kBlock));
}

}  // namespace

extern const BlockWeightOps block_weight_ops;
const BlockWeightOps block_weight_ops = {kBlock, multiply, cast, multiply_floats, fix_row, multiply_fixed};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
