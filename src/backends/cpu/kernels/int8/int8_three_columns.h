// SPDX-License-Identifier: Apache-2.0
// Sums over windows of three columns at stride 1 for one vector of channels: what is loaded of the image is multiplied
// by the weights of all three, so that there are fewer loads than products.
#pragma once

#include "backends/cpu/kernels/int8/int8_panel.h"
#include "backends/cpu/kernels/int8/int8_outputs.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

#ifdef __AVX2__

constexpr int kColumns = 3;
constexpr int kMostOfRow = kLanes == 8 ? 12 : 16;  // outputs of a tile: what registers hold

// Whether runs are whole rows of such windows, and each of their columns whole units.
TENON_INLINE bool are_columns(const Int8Plan& plan) {
  const ConvShape& s = plan.shape;
  const int64_t channels = s.in_c / s.slices;
  return s.kernel_w == kColumns && s.stride_w == 1 && s.dilation_w == 1 && s.groups == 1 && channels % 4 == 0 &&
         !plan.pixels && plan.run_units * 4 == kColumns * channels;
}

// As multiply_units() for R outputs of a row, the first of whose windows begins at `window`; windows are `pixel` bytes
// apart.
template <int R>
__attribute__((noinline)) void multiply_columns(const std::byte* window, int64_t pixel, const Runs& runs,
                                                const std::byte* weights, const int32_t* start, int32_t* to) {
  constexpr int kUnit = kBlock * 4;
  const int64_t column = pixel * kBlock;  // of weights
  IVec v[R];
  TENON_UNROLL
  for (int i = 0; i < R; ++i) v[i] = iload(start ? start : to + i * kBlock);
  for (int64_t run = 0; run < runs.count; ++run, weights += 2 * column) {
    Places<R + 2, PitchedRows> places({window, pixel}, runs.at[run]);
    for (const std::byte* const end = weights + column; weights != end; weights += kUnit, places.move(4)) {
      const IVec w0 = iload(weights), w1 = iload(weights + column), w2 = iload(weights + 2 * column);
      TENON_UNROLL
      for (int i = 0; i < R + 2; ++i) {
        const IVec x = spread4(places[i]);
        if (i < R) add_dots(v[i < R ? i : 0], x, w0);
        if (i >= 1 && i <= R) add_dots(v[i >= 1 && i <= R ? i - 1 : 0], x, w1);
        if (i >= 2) add_dots(v[i >= 2 ? i - 2 : 0], x, w2);
      }
    }
  }
  TENON_UNROLL
  for (int i = 0; i < R; ++i) istore(to + i * kBlock, v[i]);
}

// Calls f.operator()<R>(first) for tiles of R of `count` outputs from column x of a row on, none of two rows.
template <class F>
TENON_INLINE void with_row_tiles(int64_t count, int64_t x, int64_t width, const F& f) {
  for (int64_t at = 0; at < count; x = 0) {
    const int64_t n = smaller(count - at, width - x);
    with_tiles<kMostOfRow>(
        n, [&]<int R>(int64_t done, int64_t tiles) __attribute__((always_inline)) {
          for (int64_t t = 0; t < tiles; ++t) f.template operator()<R>(at + done + t * R);
        });
    at += n;
  }
}

// As run_tiles() where are_columns(); the first output is at column x.
template <class Rows>
void run_columns(const Int8Plan& plan, const Int8Output& o, const Job& job, Rows windows, int64_t count, int64_t x,
                 int32_t* sums, Outputs& outputs) {
  const ConvShape& s = plan.shape;
  const int64_t pixel = s.in_c / s.slices;
  int64_t run = 0;
  for (; plan.run_count - run > plan.run_block; run += plan.run_block) {
    const Panel panel(plan, job, run);
    with_row_tiles(
        count, x, s.out_w, [&]<int R>(int64_t at) __attribute__((always_inline)) {
          int32_t* const to = sums + at * kBlock;
          multiply_columns<R>(windows[at] + windows.shift, pixel, panel.runs, panel.weights,
                              begin_sums<R>(job, run, at, to), to);
        });
  }
  const Finish finish = finish_of(o);
  alignas(64) std::byte ready[kReadyBytes];
  finish.prepare(o, job, ready);
  const Panel panel(plan, job, run);
  int64_t done = 0, places = 0;
  const auto finish_places = [&]() __attribute__((always_inline)) {
    finish.run(o, ready, job, run ? sums + done * kBlock : sums, kBlock, places, outputs);
    done += places, places = 0;
  };
  with_row_tiles(
      count, x, s.out_w, [&]<int R>(int64_t at) __attribute__((always_inline)) {
        if (places + R > kTilesTogether * kTilePixels) finish_places();
        int32_t* const to = sums + (run ? at : places) * kBlock;
        multiply_columns<R>(windows[at] + windows.shift, pixel, panel.runs, panel.weights,
                            begin_sums<R>(job, run, at, to), to);
        places += R;
      });
  finish_places();
}

#endif

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
