// SPDX-License-Identifier: Apache-2.0
// Walks the outputs of a convolution by tiles: rounds of places, copies, blocks of output channels, pairs of tiles.
#pragma once

#include "backends/cpu/kernels/outputs.h"
#include "backends/cpu/kernels/tile_rounds.h"
#include "backends/cpu/kernels/tiles.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// Tiles of `rows` places each; the last one may begin before the one ahead of it ends.
struct Tiling {
  int64_t count;  // of places
  int rows;
  explicit Tiling(int64_t places) : count(places) {
    const int64_t tiles = places > kTileRows ? (places + 2 * kTileRows - 1) / (2 * kTileRows) * 2 : 1;
    rows = static_cast<int>((places + tiles - 1) / tiles);
  }
  int64_t pairs() const { return (count + 2 * rows - 1) / (2 * rows); }
  bool is_pair(int64_t pair) const { return (2 * pair + 1) * rows < count; }
  int64_t first(int64_t tile) const { return smaller(tile * rows, count - rows); }
};

// All sums of up to two tiles of places, `tile` bytes apart, times up to two of channels; they begin at `start`.
// `kFetch`: weights are read for the first time, so those further on are fetched into L2, the next block's included.
// between() is called after each chunk: what it does with vectors runs beside the products.
template <TileDot kDot, int kInputs, int kWeights, bool kFetch, class Between>
__attribute__((noinline)) void multiply(const TilePlan& plan, const std::byte* const* a, const std::byte* weights,
                                        const void* start, std::byte* sums, int64_t tile, const Between& between) {
  constexpr int64_t kRow = kTileBlock * 4;
  const int64_t step = plan.step, chunk = plan.runs.chunk / 4 * kRow;
  const std::byte *const a0 = a[0], *const a1 = a[1];
  const auto* const second = static_cast<const std::byte*>(start) + kTileColumns * 4;
  load_tile<0>(start, 0);
  if constexpr (kWeights > 1) load_tile<1>(second, 0);
  if constexpr (kInputs > 1) load_tile<2>(start, 0);
  if constexpr (kInputs > 1 && kWeights > 1) load_tile<3>(second, 0);
  const int64_t* const end = plan.offsets + plan.runs.chunks();
  for (const int64_t* offset = plan.offsets; offset != end; ++offset, weights += chunk) {
    constexpr int64_t kAhead = 12 << 10;
    if constexpr (kFetch)
      for (int64_t at = 0; at < chunk; at += 64) _mm_prefetch(weights + kAhead + at, _MM_HINT_T1);
    load_tile<6>(weights, kRow);
    load_tile<4>(a0 + *offset, step);
    add_tile_dots<kDot, 0, 4, 6>();
    if constexpr (kInputs > 1) {
      load_tile<5>(a1 + *offset, step);
      add_tile_dots<kDot, 2, 5, 6>();
    }
    if constexpr (kWeights > 1) {
      load_tile<7>(weights + kTileColumns * 4, kRow);
      add_tile_dots<kDot, 1, 4, 7>();
      if constexpr (kInputs > 1) add_tile_dots<kDot, 3, 5, 7>();
    }
    between();
  }
  store_tile<0>(sums, kRow);
  if constexpr (kWeights > 1) store_tile<1>(sums + kTileColumns * 4, kRow);
  if constexpr (kInputs > 1) store_tile<2>(sums + tile, kRow);
  if constexpr (kInputs > 1 && kWeights > 1) store_tile<3>(sums + tile + kTileColumns * 4, kRow);
}

template <TileDot kDot, class Between>
void multiply_pair(const TilePlan& plan, const TileChannels& channels, const void* start, const Tiling& tiling,
                   const std::byte* from, int64_t pair, std::byte* sums, const Between& between) {
  const std::byte* a[2] = {from + tiling.first(2 * pair) * plan.step, from + tiling.first(2 * pair + 1) * plan.step};
  const std::byte* const weights =
      plan.packed + channels.block * plan.runs.chunks() * plan.runs.chunk * kTileBlock;
  const bool both = tiling.is_pair(pair), wide = channels.count > kTileColumns;
  const int64_t tile = int64_t{tiling.rows} * kTileBlock * 4;
  const auto any = [&]<bool kFetch>() {
    if (both && wide) multiply<kDot, 2, 2, kFetch>(plan, a, weights, start, sums, tile, between);
    else if (both) multiply<kDot, 2, 1, kFetch>(plan, a, weights, start, sums, tile, between);
    else if (wide) multiply<kDot, 1, 2, kFetch>(plan, a, weights, start, sums, tile, between);
    else multiply<kDot, 1, 1, kFetch>(plan, a, weights, start, sums, tile, between);
  };
  if (pair == 0) any.template operator()<true>();
  else any.template operator()<false>();
}

// The blocks of channels [n0, n1) in one round: a few together for each pair of tiles, so that whole lines of outputs
// are written at once. `Kernel` has kDot, has_residual(), copy(round, group, to), in_place(round, group),
// start(channels, place among those together) and finish(channels, sums, count, outputs).
template <class Kernel>
void run_round(const TilePlan& plan, Kernel& kernel, const TileRound& round, int64_t n0, int64_t n1, std::byte* own) {
  constexpr int64_t kPair = kTilePairSums * 4;
  const ConvShape& s = plan.shape;
  const int64_t group_out = s.out_c / s.groups, blocks = (group_out + kTileBlock - 1) / kTileBlock;
  std::byte* const copies = own + 2 * kPair;
  const PixelCursor cursor(s, round.first);
  const bool rows = plan.source == TileSource::image, in_place = plan.source == TileSource::in_place;
  const Outputs all(s, plan.slots, rows ? round.image : cursor.image, rows ? round.y0 : cursor.y, cursor.x,
                    kernel.has_residual());
  const Tiling tiling(round.count);
  configure_tiles(tiling.rows, plan.runs.chunk);
  int64_t copied = -1;
  for (int64_t n = n0; n < n1;) {
    const int64_t group = n / blocks, together = smaller(plan.together, smaller(n1, (group + 1) * blocks) - n);
    if (!in_place && group != copied) kernel.copy(round, group, copies);
    copied = group;
    const std::byte* const from = in_place ? kernel.in_place(round, group) : copies;
    TileChannels channels[kMostTogether];
    const void* start[kMostTogether];
    for (int64_t i = 0; i < together; ++i, ++n) {
      const int64_t first = group * group_out + (n - group * blocks) * kTileBlock;
      channels[i] = {n, group, first, static_cast<int>(smaller(kTileBlock, (group + 1) * group_out - first))};
      start[i] = kernel.start(channels[i], i);
    }
    // The sums of a pair and a block are finished while the next are multiplied, a piece of them beside each chunk.
    Outputs here = all, outputs = all;
    const int64_t both = 2 * tiling.rows, chunks = plan.runs.chunks();
    const int64_t piece = round_up((both + chunks - 1) / chunks, 4), items = tiling.pairs() * together;
    const TileChannels* ahead = channels;
    const std::byte* sums = own;
    int64_t done = 0, due = 0;
    const auto finish = [&](int64_t most) {
      const int64_t count = smaller(most, due - done);
      if (count == 0) return;
      kernel.finish(*ahead, sums + done * kTileBlock * 4, count, outputs);
      done += count;
    };
    // Places of a last pair whose tiles overlap.
    const auto finish_last = [&](int64_t pair) {
      for (int64_t tile = 2 * pair; tile < 2 * pair + 2; ++tile) {
        const int64_t at = tile * tiling.rows, stop = smaller(tiling.count, at + tiling.rows);
        const int64_t row = tile % 2 * tiling.rows + at - tiling.first(tile);
        if (at < stop) kernel.finish(*ahead, sums + row * kTileBlock * 4, stop - at, outputs);
      }
    };
    for (int64_t item = 0, pair = 0, i = 0; item <= items; ++item) {
      std::byte* const to = own + item % 2 * kPair;
      if (item < items)
        multiply_pair<Kernel::kDot>(plan, channels[i], start[i], tiling, from, pair, to, [&] { finish(piece); });
      if (item > 0) {
        if (due > 0) finish(due);
        else finish_last((item - 1) / together);
        if (i == 0) here = outputs;
      }
      ahead = channels + i;
      sums = to;
      outputs = here;
      done = 0;
      due = (pair + 1) * both <= tiling.count ? both : 0;
      if (++i == together) i = 0, ++pair;
    }
  }
}

template <class Kernel>
void run_tiles(const TilePlan& plan, Kernel& kernel, const Worker& worker) {
  each_round(plan, worker, [&](const TileRound& round, int64_t n0, int64_t n1, std::byte* own) {
    run_round(plan, kernel, round, n0, n1, own);
  });
  release_tiles();
}

}  // namespace
}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
