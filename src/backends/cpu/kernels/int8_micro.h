// R rows of words times kBlock output channels, all sums in registers.
#pragma once

#include "backends/cpu/kernels/simd_int8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// Every loop over `v` has to be unrolled completely, or the compiler keeps the array in memory.
template <int R>
struct WordSums {
  IVec v[R][2];

  TENON_INLINE void clear() {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) v[i][0] = v[i][1] = izero();
  }
  TENON_INLINE void load_from(const int32_t* p) {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      v[i][0] = iload(p + i * kBlock);
      v[i][1] = iload(p + i * kBlock + kLanes);
    }
  }
  // Two elements of K: a[i] + k points at row i's.
  TENON_INLINE void step(const int16_t* const (&a)[R], int64_t k, const int16_t* w) {
    const IVec w0 = iload(w), w1 = iload(w + kBlock);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      const IVec x = spread4(a[i] + k);
      add_words(v[i][0], x, w0);
      add_words(v[i][1], x, w1);
    }
  }
  TENON_INLINE void store_to(int32_t* p) const {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      istore(p + i * kBlock, v[i][0]);
      istore(p + i * kBlock + kLanes, v[i][1]);
    }
  }
};

// `k` is a positive multiple of 8, `w` as WordsPlan::packed; sums of a row lie kBlock from those of the next and begin
// at 0 where `first`.
template <int R>
static __attribute__((noinline)) void multiply_words(const int16_t* rows, int64_t pitch, int64_t k, const int16_t* w, int32_t* to,
                                        bool first) {
  const int16_t* a[R];
  TENON_UNROLL
  for (int i = 0; i < R; ++i) a[i] = rows + i * pitch;
  WordSums<R> sums;
  if (first) sums.clear();
  else sums.load_from(to);
  int64_t at = 0;
  do {
    TENON_UNROLL
    for (int step = 0; step < 8; step += 2) sums.step(a, at + step, w + step * kBlock);
    w += 8 * kBlock;
    at += 8;
  } while (at != k);
  sums.store_to(to);
}

// Calls f.operator()<n>() for a runtime n in 1..kTilePixels.
template <int N = kTilePixels, class F>
static TENON_INLINE void with_words(int n, const F& f) {
  if constexpr (N >= 1) {
    if (n == N) f.template operator()<N>();
    else with_words<N - 1>(n, f);
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
