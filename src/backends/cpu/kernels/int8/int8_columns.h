// SPDX-License-Identifier: Apache-2.0
// What int8_columns.cpp and int8_columns_isa.cpp share: depthwise convolutions of 3x3 where the processor multiplies
// four bytes at once. Three rows of a pixel column are interleaved once and multiplied for every window they lie in.
#pragma once

#include "backends/cpu/kernels/int8/int8.h"

namespace tenon::cpu {

// Lists are in whole blocks of four vectors of channels, in the order of column_place.
struct Int8ColumnPlan {
  ConvShape shape;
  Int8Output output;
  const int8_t* packed;  // [block][column of taps][channel of the block][4]
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
};

namespace avx2 { extern const Int8ColumnOps int8_column_ops; }
namespace avx512 { extern const Int8ColumnOps int8_column_ops; }

}  // namespace tenon::cpu
