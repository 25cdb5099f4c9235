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

// Sums of the products before, which are still in registers 0 to 3. Each is stored right before its register is needed
// again: a store waits for its register's products, and loads behind it in the program, of tiles too, for the store.
struct LateSums {
  std::byte* to = nullptr;
  int64_t tile = 0;  // bytes between the sums of two tiles of places
  int inputs = 0, weights = 0;

  template <int kTile>
  TENON_INLINE void store() const {
    constexpr int kInput = kTile / 2, kWeight = kTile % 2;
    if (kInput < inputs && kWeight < weights)
      store_tile<kTile>(to + kInput * tile + kWeight * kTileColumns * 4, kTileBlock * 4);
  }
  TENON_INLINE void store_all() {
    store<0>(), store<1>(), store<2>(), store<3>();
    inputs = 0;
  }
};

// What sums of tile `kTile` begin at; null: nothing.
template <int kTile>
TENON_INLINE void begin_sums(const void* start) {
  if (start) load_tile<kTile>(static_cast<const std::byte*>(start) + kTile % 2 * kTileColumns * 4, 0);
  else zero_tile<kTile>();
}

// Weights that are fetched into L2 beside products, some lines for each chunk. Loads of tiles alone wait for memory.
struct Fetch {
  const std::byte* at = nullptr;
  int64_t lines = 0;
  TENON_INLINE void some() {
    for (int64_t i = 0; i < lines; ++i, at += 64) _mm_prefetch(at, _MM_HINT_T1);
  }
};

// All sums of up to two tiles of places, `tile` bytes apart, times up to two of channels; they begin at `start` and
// stay in registers: what was there is stored where `late` says, and then it says where these will be.
template <TileDot kDot, int kInputs, int kWeights>
__attribute__((noinline)) void multiply(const TilePlan& plan, const std::byte* const* a, const std::byte* weights,
                                        const void* start, Fetch& fetch, LateSums& late, const LateSums& next) {
  constexpr int64_t kRow = kTileBlock * 4;
  const int64_t step = plan.step, chunk = plan.runs.chunk / 4 * kRow;
  const std::byte *const a0 = a[0], *const a1 = a[1];
  const int64_t *offset = plan.offsets, *const end = offset + plan.runs.chunks();
  fetch.some();
  load_tile<4>(a0 + *offset, step);
  load_tile<6>(weights, kRow);
  if (end - offset == 1) late.store_all();  // what finishes them follows at once and waits for all stores
  late.store<0>();
  begin_sums<0>(start);
  add_tile_dots<kDot, 0, 4, 6>();
  late.store<1>();
  if constexpr (kWeights > 1) {
    load_tile<7>(weights + kTileColumns * 4, kRow);
    begin_sums<1>(start);
    add_tile_dots<kDot, 1, 4, 7>();
  }
  late.store<2>();
  if constexpr (kInputs > 1) {
    load_tile<5>(a1 + *offset, step);
    begin_sums<2>(start);
    add_tile_dots<kDot, 2, 5, 6>();
  }
  late.store<3>();
  if constexpr (kInputs > 1 && kWeights > 1) {
    begin_sums<3>(start);
    add_tile_dots<kDot, 3, 5, 7>();
  }
  late = next;
  for (++offset, weights += chunk; offset != end; ++offset, weights += chunk) {
    fetch.some();
    load_tile<4>(a0 + *offset, step);
    load_tile<6>(weights, kRow);
    if constexpr (kWeights > 1) load_tile<7>(weights + kTileColumns * 4, kRow);
    if constexpr (kInputs > 1) load_tile<5>(a1 + *offset, step);
    add_tile_dots<kDot, 0, 4, 6>();
    if constexpr (kWeights > 1) add_tile_dots<kDot, 1, 4, 7>();
    if constexpr (kInputs > 1) add_tile_dots<kDot, 2, 5, 6>();
    if constexpr (kInputs > 1 && kWeights > 1) add_tile_dots<kDot, 3, 5, 7>();
  }
}

const std::byte* weights_of(const TilePlan& plan, int64_t block) {
  return plan.packed + block * plan.runs.chunks() * plan.runs.chunk * kTileBlock;
}

template <TileDot kDot>
void multiply_pair(const TilePlan& plan, const TileChannels& channels, const void* start, const Tiling& tiling,
                   const std::byte* from, int64_t pair, std::byte* sums, Fetch& fetch, LateSums& late) {
  const std::byte* a[2] = {from + tiling.first(2 * pair) * plan.step, from + tiling.first(2 * pair + 1) * plan.step};
  const std::byte* const weights = weights_of(plan, channels.block);
  const bool both = tiling.is_pair(pair), wide = channels.count > kTileColumns;
  const LateSums next{sums, int64_t{tiling.rows} * kTileBlock * 4, both ? 2 : 1, wide ? 2 : 1};
  if (both && wide) multiply<kDot, 2, 2>(plan, a, weights, start, fetch, late, next);
  else if (both) multiply<kDot, 2, 1>(plan, a, weights, start, fetch, late, next);
  else if (wide) multiply<kDot, 1, 2>(plan, a, weights, start, fetch, late, next);
  else multiply<kDot, 1, 1>(plan, a, weights, start, fetch, late, next);
}

// What to fetch beside the products of `pairs` pairs of tiles and `together` blocks from `block` on. With the first
// pair further weights of these blocks, where nobody has fetched them (`is_first`); with the others those of the blocks
// that come next, before `last`.
class Fetches {
 public:
  Fetches(const TilePlan& plan, int64_t block, int64_t together, int64_t last, int64_t pairs, bool is_first) {
    constexpr int64_t kAhead = 12 << 10;
    const int64_t bytes = plan.runs.chunk * kTileBlock, chunks = together * plan.runs.chunks();
    if (is_first || pairs == 1) own_ = {weights_of(plan, block) + kAhead, (bytes + 63) / 64};
    const int64_t next = smaller(together, last - block - together);
    if (next <= 0 || pairs == 1) return;
    const int64_t lines = next * plan.runs.chunks() * bytes / 64, steps = (pairs - 1) * chunks;
    next_ = {weights_of(plan, block + together), (lines + steps - 1) / steps};
  }
  Fetch& of(int64_t pair) { return pair == 0 ? own_ : next_; }

 private:
  Fetch own_, next_;
};

// The blocks of channels [n0, n1) in one round: a few together for each pair of tiles, so that whole lines of outputs
// are written at once. `Kernel` has kDot, has_residual(), copy(round, group, to), in_place(round, group),
// prepare(channels, place among those together), which gives what sums begin at, and finish(channels, place, sums,
// count, outputs).
template <class Kernel>
void run_round(const TilePlan& plan, Kernel& kernel, const TileRound& round, int64_t n0, int64_t n1, std::byte* own) {
  const ConvShape& s = plan.shape;
  const int64_t group_out = s.out_c / s.groups, blocks = (group_out + kTileBlock - 1) / kTileBlock;
  std::byte* const copies = own + kTilePairSums;
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
      start[i] = kernel.prepare(channels[i], i);
    }
    // The sums of a pair and a block are finished behind the next ones' products, whose beginning stores them.
    Outputs here = all;
    LateSums late;
    const int64_t items = tiling.pairs() * together, both = 2 * tiling.rows;
    Fetches fetches(plan, channels[0].block, together, n1, tiling.pairs(), channels[0].block == n0);
    const auto finish = [&](int64_t pair, int64_t place) {
      Outputs outputs = here;
      const auto rows = [&](int64_t row, int64_t count) {
        kernel.finish(channels[place], place, own + row * kTileBlock * 4, count, outputs);
      };
      if ((pair + 1) * both <= tiling.count) {
        rows(0, both);
      } else {  // the last tiles may overlap
        for (int64_t tile = 2 * pair; tile < 2 * pair + 2; ++tile) {
          const int64_t at = tile * tiling.rows, stop = smaller(tiling.count, at + tiling.rows);
          if (at < stop) rows(tile % 2 * tiling.rows + at - tiling.first(tile), stop - at);
        }
      }
      if (place + 1 == together) here = outputs;
    };
    for (int64_t item = 0, pair = 0, place = 0; item <= items; ++item) {
      if (item < items)
        multiply_pair<Kernel::kDot>(plan, channels[place], start[place], tiling, from, pair, own, fetches.of(pair),
                                    late);
      else late.store_all();
      if (item > 0) finish(place ? pair : pair - 1, place ? place - 1 : together - 1);
      if (++place == together) place = 0, ++pair;
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
