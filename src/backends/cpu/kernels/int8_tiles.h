// What int8_tiles.cpp and int8_tiles_isa.cpp share: convolutions by tiles of 16 outputs times 16 output channels.
#pragma once

#include "backends/cpu/kernels/int8.h"

namespace tenon::cpu {

constexpr int kTileBlock = 32;  // output channels multiplied together, two tiles of them

enum class TileSource : uint8_t {
  in_place,  // pixels as they lie are windows
  windows,   // copied beside each other
  picture    // rows copied with their border, in which windows overlap
};

// Inputs of an output lie in chunks at the same offsets from its place for all outputs, and places are `step` apart.
// Of a picture, rows `stride_h` apart lie behind each other, in one of stride_h planes: so the same step leads from the
// last output of a row to the first of the next, over `slots - out_w` that are none.
struct Int8TilePlan {
  ConvShape shape;
  Int8Output output;
  TileSource source;
  const std::byte* packed;   // [group][block of output channels][chunk][chunk_bytes / 4][kTileBlock][4]
  const int32_t* start;      // sums of nothing but a zero point of one, negated; [group][whole blocks]
  const int64_t* offsets;    // of chunks, in bytes
  int32_t in_zero;
  int chunk_bytes;           // a multiple of 4, at most 64
  int64_t chunks;
  int64_t step, slots;
  int64_t columns;           // picture: pixels of a copied row, its border included
  int64_t plane_bytes;       // picture: from plane to plane
  int64_t block_rows;        // picture: rows of outputs copied together
  int64_t block_places;      // of outputs multiplied together, those that are none included
  int pixel_splits, channel_splits;
  size_t copy_bytes, worker_bytes;
};

struct Int8TileOps {
  size_t (*worker_bytes)(const Int8TilePlan&);  // beside copy_bytes
  void (*run)(const Int8TilePlan&, const uint8_t* in, const uint8_t* residual, void* out, const Worker&);
};

namespace amx { extern const Int8TileOps int8_tile_ops; }

}  // namespace tenon::cpu
