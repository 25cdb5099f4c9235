// SPDX-License-Identifier: Apache-2.0
// R rows of 32-bit units times kBlock output channels, all sums in registers.
#pragma once

#include "backends/cpu/kernels/int8/int8.h"

#include "backends/cpu/kernels/int8/simd_int8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// sum += the products of x and one of a unit's two vectors of weights. `ones` are of 16 bits.
template <Int8Form kForm>
static TENON_INLINE void add_products(IVec& sum, IVec x, const std::byte* weights, IVec loaded, IVec ones) {
  if constexpr (kForm == Int8Form::int16 || kForm == Int8Form::of_floats) add_int16(sum, x, loaded);
  if constexpr (kForm == Int8Form::int8x2) add_pairs(sum, x, weights, ones);
#ifdef __AVX2__
  if constexpr (kForm == Int8Form::dot) add_dots(sum, x, loaded);
  if constexpr (kForm == Int8Form::of_floats_dot) add_int16_dots(sum, x, loaded);
#endif
}

// Rows that lie `pitch` bytes apart, or `shift` bytes behind where a list says. They fit into registers.
struct PitchedRows {
  static constexpr int64_t shift = 0;
  const std::byte* first;
  int64_t pitch;
  TENON_INLINE const std::byte* operator[](int i) const { return first + i * pitch; }
  TENON_INLINE PitchedRows from(int64_t row) const { return {first + row * pitch, pitch}; }
  TENON_INLINE PitchedRows shifted(int64_t bytes) const { return {first + bytes, pitch}; }
};
struct ListedRows {
  const std::byte* const* list;
  int64_t shift;
  TENON_INLINE const std::byte* operator[](int i) const { return list[i]; }
  TENON_INLINE ListedRows from(int64_t row) const { return {list + row, shift}; }
  TENON_INLINE ListedRows shifted(int64_t bytes) const { return {list, shift + bytes}; }
};

// Places in R rows that move along together: of rows a pitch apart one of three is kept, as registers are few.
template <int R, class Rows>
class Places {
 public:
  TENON_INLINE Places(const ListedRows& rows, int64_t at) : at_(at + rows.shift) {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) rows_[i] = rows[i];
  }
  TENON_INLINE const std::byte* operator[](int i) const { return rows_[i] + at_; }
  TENON_INLINE void move(int64_t bytes) { at_ += bytes; }

 private:
  const std::byte* rows_[R];
  int64_t at_;
};
template <int R>
class Places<R, PitchedRows> {
 public:
  TENON_INLINE Places(const PitchedRows& rows, int64_t at) : pitch_(rows.pitch) {
    TENON_UNROLL
    for (int i = 0; i < kThirds; ++i) thirds_[i] = rows[3 * i] + at;
  }
  TENON_INLINE const std::byte* operator[](int i) const { return thirds_[i / 3] + i % 3 * pitch_; }
  TENON_INLINE void move(int64_t bytes) {
    TENON_UNROLL
    for (int i = 0; i < kThirds; ++i) thirds_[i] += bytes;
  }

 private:
  static constexpr int kThirds = (R + 2) / 3;
  const std::byte* thirds_[kThirds];
  int64_t pitch_;
};

// `count` runs of `units` units in each row, at so many bytes from its begin.
struct Runs {
  const int64_t* at;
  int64_t count, units;
};

// Two lines of weights that are needed later.
static TENON_INLINE void fetch_lines(const std::byte*& fetch) {
  __builtin_prefetch(fetch, 0, 2);
  __builtin_prefetch(fetch + 64, 0, 2);
  fetch += 128;
}

// `weights` are [unit][kBlock] of 32 bits, of which kVectors vectors count; sums of a row lie kBlock from those of the
// next. They begin at `start`, the same for each row, or where it is null at what `to` holds. Beside four units two
// lines from `fetch` on are fetched. Every loop over `v` has to be unrolled completely, or the compiler keeps the array
// in memory.
template <Int8Form kForm, int R, int kVectors, class Rows>
static __attribute__((noinline)) void multiply_units(Rows rows, const Runs& runs, const std::byte* weights,
                                                     const int32_t* start, int32_t* to, const std::byte* fetch) {
  constexpr int kUnit = kBlock * 4, kHalf = kLanes * 4, kStep = 4;
  const IVec ones = ones16();
  const std::byte* a[R];
  IVec v[R][kVectors];
  TENON_UNROLL
  for (int i = 0; i < R; ++i) {
    a[i] = rows[i];
    const int32_t* const from = start ? start : to + i * kBlock;
    v[i][0] = iload(from);
    if constexpr (kVectors > 1) v[i][1] = iload(from + kLanes);
  }
  const auto multiply = [&](int64_t at, const std::byte* w) __attribute__((always_inline)) {
    IVec w0 = ones, w1 = ones;
    if constexpr (kForm != Int8Form::int8x2) w0 = iload(w);
    if constexpr (kForm != Int8Form::int8x2 && kVectors > 1) w1 = iload(w + kHalf);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      const IVec x = spread4(a[i] + at);
      add_products<kForm>(v[i][0], x, w, w0, ones);
      if constexpr (kVectors > 1) add_products<kForm>(v[i][1], x, w + kHalf, w1, ones);
    }
  };
  for (int64_t run = 0; run < runs.count; ++run) {
    int64_t at = runs.at[run] + rows.shift;
    const int64_t end = at + runs.units * 4, steps_end = at + (runs.units & -kStep) * 4;
    for (; at != steps_end; at += kStep * 4, weights += kStep * kUnit) {
      TENON_UNROLL
      for (int step = 0; step < kStep; ++step) multiply(at + step * 4, weights + step * kUnit);
      fetch_lines(fetch);
    }
    for (; at != end; at += 4, weights += kUnit) multiply(at, weights);
  }
  TENON_UNROLL
  for (int i = 0; i < R; ++i) {
    istore(to + i * kBlock, v[i][0]);
    if constexpr (kVectors > 1) istore(to + i * kBlock + kLanes, v[i][1]);
  }
}

// Calls f.operator()<n>() for a runtime n in 1..kTilePixels.
template <int N = kTilePixels, class F>
static TENON_INLINE void with_count(int n, const F& f) {
  if constexpr (N >= 1) {
    if (n == N) f.template operator()<N>();
    else with_count<N - 1>(n, f);
  }
}

// Calls f.operator()<rows>(first, tiles) for `count` rows cut into as few tiles of nearly equal numbers of rows, kMost
// or fewer.
template <int kMost = kTilePixels, class F>
static TENON_INLINE void with_tiles(int64_t count, const F& f) {
  const int64_t tiles = (count + kMost - 1) / kMost, large = count % tiles;
  const int small = static_cast<int>(count / tiles);
  if (large)
    with_count<kMost>(small + 1, [&]<int R>() __attribute__((always_inline)) { f.template operator()<R>(0, large); });
  with_count<kMost>(small, [&]<int R>() __attribute__((always_inline)) {
    f.template operator()<R>(large * (small + 1), tiles - large);
  });
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
