// R rows of 32-bit units times kBlock output channels, all sums in registers.
#pragma once

#include "backends/cpu/kernels/int8.h"

#include "backends/cpu/kernels/simd_int8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// sum += the products of x and one of a unit's two vectors of weights. `ones` are of 16 bits.
template <Int8Form kForm>
static TENON_INLINE void add_products(IVec& sum, IVec x, const std::byte* weights, IVec loaded, IVec ones) {
  if constexpr (kForm == Int8Form::words) add_words(sum, x, loaded);
  if constexpr (kForm == Int8Form::pairs) add_pairs(sum, x, weights, ones);
#ifdef __AVX2__
  if constexpr (kForm == Int8Form::dot) add_dots(sum, x, loaded);
#endif
}

// `units` is a positive multiple of kUnitStep, `weights` those of a block as in Int8Plan::packed; sums of a row lie
// kBlock from those of the next. They begin at `start`, the same for each row, or where it is null at what `to` holds.
// Every loop over `v` has to be unrolled completely, or the compiler keeps the array in memory.
template <Int8Form kForm, int R>
static __attribute__((noinline)) void multiply_units(const std::byte* rows, int64_t pitch, int64_t units,
                                                     const std::byte* weights, const int32_t* start, int32_t* to) {
  constexpr int kUnit = kBlock * 4, kHalf = kLanes * 4;
  const IVec ones = ones16();
  const std::byte* a[R];
  IVec v[R][2];
  TENON_UNROLL
  for (int i = 0; i < R; ++i) {
    a[i] = rows + i * pitch;
    v[i][0] = iload(start ? start : to + i * kBlock);
    v[i][1] = iload(start ? start + kLanes : to + i * kBlock + kLanes);
  }
  const int64_t end = units * 4;
  for (int64_t at = 0; at != end; at += kUnitStep * 4, weights += kUnitStep * kUnit) {
    TENON_UNROLL
    for (int step = 0; step < kUnitStep; ++step) {
      const std::byte* w = weights + step * kUnit;
      IVec w0 = ones, w1 = ones;
      if constexpr (kForm != Int8Form::pairs) w0 = iload(w), w1 = iload(w + kHalf);
      TENON_UNROLL
      for (int i = 0; i < R; ++i) {
        const IVec x = spread4(a[i] + at + step * 4);
        add_products<kForm>(v[i][0], x, w, w0, ones);
        add_products<kForm>(v[i][1], x, w + kHalf, w1, ones);
      }
    }
  }
  TENON_UNROLL
  for (int i = 0; i < R; ++i) {
    istore(to + i * kBlock, v[i][0]);
    istore(to + i * kBlock + kLanes, v[i][1]);
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

// Calls f.operator()<rows>(first, tiles) for `count` rows cut into as few tiles of nearly equal numbers of rows.
template <class F>
static TENON_INLINE void with_tiles(int64_t count, const F& f) {
  const int64_t tiles = (count + kTilePixels - 1) / kTilePixels, large = count % tiles;
  const int small = static_cast<int>(count / tiles);
  if (large)
    with_count(small + 1, [&]<int R>() __attribute__((always_inline)) { f.template operator()<R>(0, large); });
  with_count(small, [&]<int R>() __attribute__((always_inline)) {
    f.template operator()<R>(large * (small + 1), tiles - large);
  });
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
