// SPDX-License-Identifier: Apache-2.0
// What int8_columns.cpp, int8_columns_isa.cpp and int8_quads_isa.cpp share: depthwise convolutions where the processor
// multiplies four bytes at once. Of 3x3 three rows of a pixel column are interleaved once and multiplied for every
// window they lie in, of others four columns of a row.
#pragma once

#include "backends/cpu/kernels/int8/int8.h"

namespace tenon::cpu {

// Lists are in whole blocks of four vectors of channels, in the order of column_place.
struct Int8ColumnPlan {
  ConvShape shape;
  Int8Output output;
  const int8_t* packed;  // [block][unit: a column of taps, or four columns of a row][channel of the block][4]
  int64_t units;
  int quads;             // units of a row; 0: they are columns
  int64_t positions;     // of four columns in a row, as many as windows and their units begin at
  int64_t worker_bytes;  // of a worker's workspace, where rows of those lie
  const int32_t* start;  // for each zero point of one
  int32_t in_zero;
  uint8_t low, high;  // clamps of the bytes
  int row_splits, channel_splits;
};

// Where the channel of a block stands: interleaving works on parts of 128 bits.
inline int64_t column_place(int lanes, int64_t channel) {
  const int64_t part = channel / 16, vector = channel % 16 / 4;
  return vector * lanes + part * 4 + channel % 4;
}

struct Int8ColumnOps {
  int lanes;
  void (*run)(const Int8ColumnPlan&, const uint8_t* in, uint8_t* out, const Worker&);
  void (*run_quads)(const Int8ColumnPlan&, const uint8_t* in, uint8_t* out, const Worker&);
};

namespace avx2 {
extern const Int8ColumnOps int8_column_ops;
void run_quads8(const Int8ColumnPlan& plan, const uint8_t* in, uint8_t* out, const Worker& worker);
}  // namespace avx2
namespace avx512 {
extern const Int8ColumnOps int8_column_ops;
void run_quads8(const Int8ColumnPlan& plan, const uint8_t* in, uint8_t* out, const Worker& worker);
}  // namespace avx512

}  // namespace tenon::cpu
