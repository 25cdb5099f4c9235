// SPDX-License-Identifier: Apache-2.0
// Sums of bytes that are finished while the next are multiplied. A processor with as many units for vectors that do not
// multiply as that do takes no longer for both than for the products.
#pragma once

#include "backends/cpu/kernels/int8/int8_micro.h"
#include "backends/cpu/kernels/int8/int8_outputs.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

#ifdef __AVX512F__

constexpr int kPipelined = kTilePixels / 2;  // rows of a tile, as those of the last one are in registers, too

// Where the first output is stored and its residual lies, and the bytes from one to the next.
struct Target {
  uint8_t* out;
  int64_t step;
  const uint8_t* residual;
  int64_t residual_step;
};

// `tiles` tiles of R rows. Their sums begin at `start`, where a row's lie kBlock behind those of the row before, and a
// tile's `start_step` behind those of the tile before. `fetch` is where weights are fetched from beside the first four
// tiles, a quarter of so many as are used beside each.
template <int R, class Rows, class Act, Residual kResidual>
__attribute__((noinline)) void multiply_and_finish(Rows rows, const Runs& runs, const std::byte* weights,
                                                   const std::byte* fetch, const int32_t* start, int64_t start_step,
                                                   int64_t tiles, const ByteRows<Act, kResidual>& bytes, Target to) {
  constexpr int kUnit = kBlock * 4, kHalf = kLanes * 4, kStep = 4;
  static_assert(R <= 2 * kStep);
  IVec v[R][2], last[R][2];
  const auto multiply = [&](const Places<R, Rows>& places, int64_t at, const std::byte* w)
                            __attribute__((always_inline)) {
    const IVec w0 = iload(w), w1 = iload(w + kHalf);
    TENON_UNROLL
    for (int i = 0; i < R; ++i) {
      const IVec x = spread4(places[i] + at);
      add_dots(v[i][0], x, w0);
      add_dots(v[i][1], x, w1);
    }
  };
  const auto finish = [&](int i) __attribute__((always_inline)) {
    const int second = i + 1 < R ? 1 : 0;
    bytes.pair(last[i], last[i + second], to.residual, second * to.residual_step, to.out, second * to.step);
    to.out += (1 + second) * to.step;
    if (kResidual != Residual::none) to.residual += (1 + second) * to.residual_step;
  };
  for (int64_t t = 0; t < tiles; ++t, start += start_step, rows = rows.from(R)) {
    TENON_UNROLL
    for (int i = 0; i < R; ++i) v[i][0] = iload(start + i * kBlock), v[i][1] = iload(start + i * kBlock + kLanes);
    const std::byte* w = weights;
    if (t >= 4) fetch = weights;
    for (int64_t run = 0; run < runs.count; ++run) {
      Places<R, Rows> places(rows, runs.at[run]);
      int64_t steps = runs.units / kStep;
      if (run == 0 && t > 0) {
        TENON_UNROLL
        for (int step = 0; step < kStep; ++step) {
          multiply(places, step * 4, w + step * kUnit);
          if (2 * step < R) finish(2 * step);
        }
        --steps, places.move(kStep * 4), w += kStep * kUnit;
      }
      for (; steps; --steps, places.move(kStep * 4), w += kStep * kUnit) {
        TENON_UNROLL
        for (int step = 0; step < kStep; ++step) multiply(places, step * 4, w + step * kUnit);
        fetch_lines(fetch);
      }
      for (int64_t rest = runs.units % kStep; rest; --rest, places.move(4), w += kUnit) multiply(places, 0, w);
    }
    TENON_UNROLL
    for (int i = 0; i < R; ++i) last[i][0] = v[i][0], last[i][1] = v[i][1];
  }
  TENON_UNROLL
  for (int i = 0; i < R; i += 2) finish(i);
}

#endif

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
