// SPDX-License-Identifier: Apache-2.0
// What the baseline halves and the per-instruction-set halves of products by tiles, and of bfloat16 by vectors, share:
// convolutions of many outputs times 32 output channels at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cpu/kernels/shape.h"

namespace tenon::cpu {

constexpr int kTileBlock = 32;  // output channels multiplied together, two tiles of them
constexpr int kMostTogether = 8;

// What multiplies: tiles of 16 rows, or vectors of channels, a row at a time.
enum class TileUnit : uint8_t { tiles, vectors };

enum class TileSource : uint8_t {
  in_place,  // pixels as they lie are windows
  windows,   // copied beside each other
  image    // rows copied with their border, in which windows overlap
};

// K is cut into runs of bytes that lie behind each other for every output, a run into equal chunks; the last one begins
// before the one ahead of it ends where the run is no multiple of it.
struct TileRuns {
  int64_t count, length, chunks_each;
  int chunk;  // bytes, a multiple of 4; for tiles at most 64
  int64_t chunks() const { return count * chunks_each; }
  int64_t offset_in_run(int64_t chunk_of_run) const;
};

// Inputs of an output lie in chunks at the same offsets from its place for all outputs, and places are `step` apart.
// Of an image, rows `stride_h` apart lie behind each other, in one of stride_h planes: so the same step leads from the
// last output of a row to the first of the next, over `slots - out_w` that are none.
struct TilePlan {
  ConvShape shape;
  TileUnit unit;
  TileSource source;
  int element;  // bytes of an input as it is multiplied
  TileRuns runs;
  const std::byte* packed;  // [group][block of output channels][chunk][chunk bytes / 4][kTileBlock][4]
  const int64_t* offsets;   // of chunks, in bytes
  int64_t step, slots;
  int64_t columns;       // image: pixels of a copied row, its border included
  int64_t plane_bytes;   // image: from plane to plane
  int64_t block_rows;    // image: rows of outputs copied together
  int64_t block_places;  // of outputs multiplied together, those that are none included
  int pixel_splits, channel_splits;
  int64_t together;  // blocks of output channels that each pair of tiles is multiplied by in turn
  size_t copy_bytes, worker_bytes;
};

// Planes (in_nchw) are copied as an image. Fills all but `packed`; `offsets` has to live as long as the plan.
// `is_residual`: something is added to the outputs.
void plan_tiles(TilePlan& plan, const ConvShape& shape, TileUnit unit, int element, bool is_residual, int threads,
                std::vector<int64_t>& offsets);

// Of the weights of a block of output channels, and of all.
int64_t tile_block_bytes(const TilePlan& plan);
int64_t tile_packed_bytes(const TilePlan& plan);
// Where weight k = tap times channels plus channel, of output channel o, begins among all.
int64_t tile_weight_at(const TilePlan& plan, int64_t o, int64_t k);

// What a worker needs beside copies, in bytes: sums of a pair of tiles.
constexpr int64_t kTilePairSums = 2 * 16 * kTileBlock * 4;

}  // namespace tenon::cpu
