// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cpu/isa.h"

namespace tenon::cpu {

/// Windows of pixels side by side, channels last; taps lie `offsets` from where each begins.
struct LargestWindows {
  const float* src;
  float* dst;
  int64_t* at;  // where the largest tap lies
  int64_t src_step, dst_step, at_step;
  const int64_t* offsets;
  const int32_t* places;             // of the taps, counted from that of the window
  int64_t taps;                      // at least one
  int64_t place, place_step, plane;  // where the first window begins, from one to the next, from channel to channel
  int64_t channels, pixels;
};

struct LargestOps {
  /// The first of the largest taps, or the first that is NaN.
  void (*windows)(const LargestWindows& windows);
};

const LargestOps& largest_ops(Isa isa);
namespace portable {
extern const LargestOps largest_table;
}
namespace avx2 {
extern const LargestOps largest_table;
}
namespace avx512 {
extern const LargestOps largest_table;
}

}  // namespace tenon::cpu
