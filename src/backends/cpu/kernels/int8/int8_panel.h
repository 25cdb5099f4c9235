// SPDX-License-Identifier: Apache-2.0
// Weights of a block of channels, as many of them as stay in L1.
#pragma once

#include "backends/cpu/kernels/int8/int8_finish.h"
#include "backends/cpu/kernels/int8/int8_micro.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// So far ahead weights are fetched beside the first tiles: what memory takes to answer.
constexpr int64_t kFetchedAhead = 24 << 10;

// A panel of runs of a job's weights.
struct Panel {
  Runs runs;
  const std::byte* weights;
  int64_t bytes;
  Panel(const Int8Plan& plan, const Job& job, int64_t run)
      : runs{plan.runs + run, smaller(plan.run_block, plan.run_count - run), plan.run_units},
        weights(job.weights + run * plan.run_units * kBlock * 4),
        bytes(runs.count * plan.run_units * kBlock * 4) {}
  const std::byte* fetched(int64_t tile) const {
    return tile < 4 ? weights + kFetchedAhead + bytes * tile / 4 : weights;
  }
};

// Where the sums of R places from `at` on begin: at what the returned list says for all of them, or where it is null at
// what `to` holds.
template <int R>
TENON_INLINE const int32_t* begin_sums(const Job& job, int64_t run, int64_t at, int32_t* to) {
  if (run) return nullptr;
  if (!job.shifts) return job.start;
  for (int i = 0; i < R; ++i) {
    const IVec sum = iset1(job.windows[at + i]);
    for (int c = 0; c < kBlock; c += kLanes)
      istore(to + i * kBlock + c, iadd(iload(job.start + c), imul(sum, iload(job.shifts + c))));
  }
  return nullptr;
}

// The sum of `count` bytes.
TENON_INLINE int32_t sum_of_bytes(const uint8_t* from, int64_t count) {
  int32_t sum = 0;
  int64_t at = 0;
#ifdef __AVX2__
  __m256i wide = _mm256_setzero_si256();
  for (; at + 32 <= count; at += 32)
    wide = _mm256_add_epi64(wide,
                            _mm256_sad_epu8(_mm256_loadu_si256((const __m256i*)(from + at)), _mm256_setzero_si256()));
  __m128i sums = _mm_add_epi64(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
#else
  __m128i sums = _mm_setzero_si128();
#endif
  for (; at + 8 <= count; at += 8)
    sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_loadl_epi64((const __m128i*)(from + at)), _mm_setzero_si128()));
  sum = _mm_cvtsi128_si32(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
  for (; at < count; ++at) sum += from[at];
  return sum;
}

// The sums of the bytes of `count` windows.
template <class Rows>
__attribute__((noinline)) void sum_windows(const Int8Plan& plan, Rows windows, int64_t count, int32_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const auto* const window = reinterpret_cast<const uint8_t*>(windows.from(i)[0] + windows.shift);
    int32_t sum = 0;
    for (int64_t run = 0; run < plan.run_count; run += plan.run_pieces)
      sum += sum_of_bytes(window + plan.runs[run], plan.run_numbers);
    to[i] = sum;
  }
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
