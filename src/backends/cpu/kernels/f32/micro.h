// SPDX-License-Identifier: Apache-2.0
// The micro-kernel: R pixels times kBlock output channels, all sums in registers.
#pragma once

#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// Every loop over `sums` has to be unrolled completely, or the compiler keeps the array in memory.
template <int R>
struct Sums {
  Vec v[R][2];

  TENON_INLINE void clear() {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) v[i][0] = v[i][1] = zero();
  }
  TENON_INLINE void load_from(const float* p, int64_t pitch) {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      v[i][0] = load(p + i * pitch);
      v[i][1] = load(p + i * pitch + kLanes);
    }
  }
  TENON_INLINE void store_to(float* p, int64_t pitch) const {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      store(p + i * pitch, v[i][0]);
      store(p + i * pitch + kLanes, v[i][1]);
    }
  }
  TENON_INLINE void add_bias(const float* bias) {
    const Vec b0 = load(bias), b1 = load(bias + kLanes);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      v[i][0] = add(v[i][0], b0);
      v[i][1] = add(v[i][1], b1);
    }
  }
  // One step of K: a[i] points at row i's current float.
  TENON_INLINE void step(const float* const (&a)[R], int64_t k, const float* b) {
    const Vec b0 = load(b), b1 = load(b + kLanes);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      const Vec x = set1(a[i][k]);
      add_product(v[i][0], x, b0);
      add_product(v[i][1], x, b1);
    }
  }
};

// Adds `length` steps starting at the rows a[i]; returns the weights behind the last one. `kBy4` needs length % 4 == 0.
// `kFetch`: for each weight row used, so many quarters of a row are fetched from `fetch` on, which moves along.
template <int R, bool kBy4, int kFetch>
static TENON_INLINE const float* accumulate(Sums<R>& sums, const float* const (&a)[R], int64_t length, const float* b,
                                            const char*& fetch) {
  constexpr int kStep = kBy4 ? 4 : 1;
  int64_t k = 0;
  do {
    if constexpr (kFetch > 0) {
      TENON_UNROLL
      for (int i = 0; i < kStep * kBlock * kFetch; i += 64) _mm_prefetch(fetch + i, _MM_HINT_T1);
      fetch += kStep * kBlock * kFetch;
    }
    sums.step(a, k, b);
    if constexpr (kBy4) {
      sums.step(a, k + 1, b + kBlock);
      sums.step(a, k + 2, b + 2 * kBlock);
      sums.step(a, k + 3, b + 3 * kBlock);
    }
    b += kStep * kBlock;
    k += kStep;
  } while (k != length);
  return b;
}

// Pixels of a tile that has one vector of sums each: as many as keep the multipliers busy.
constexpr int kHalfPixels = kTilePixels < 12 ? 12 : kTilePixels;

// Calls f.operator()<n>() for a runtime n in 1..kTilePixels.
template <int N = kTilePixels, class F>
static TENON_INLINE void with_rows(int n, const F& f) {
  if constexpr (N >= 1) {
    if (n == N) {
      f.template operator()<N>();
    } else {
      with_rows<N - 1>(n, f);
    }
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
