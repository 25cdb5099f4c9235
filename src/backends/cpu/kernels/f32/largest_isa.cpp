// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cpu/kernels/f32/largest.h"
#include "backends/cpu/kernels/simd.h"

namespace tenon::cpu {
namespace TENON_ISA_NAMESPACE {
namespace {

constexpr int kChannels = 64;  // at once: what they need stays in L1

// Loops that the compiler turns into vectors: a comparison and two selections.
TENON_INLINE void take_larger(float* __restrict top, int32_t* __restrict where, const float* __restrict tap,
                              int32_t place, int64_t count) {
  for (int64_t c = 0; c < count; ++c) {
    const bool above = (top[c] == top[c]) & !(tap[c] <= top[c]);
    top[c] = above ? tap[c] : top[c];
    where[c] = above ? place : where[c];
  }
}

void windows(const LargestWindows& w) {
  alignas(64) int32_t where[kChannels];
  for (int64_t pixel = 0; pixel < w.pixels; ++pixel)
    for (int64_t first = 0; first < w.channels; first += kChannels) {
      const int64_t count = std::min<int64_t>(w.channels - first, kChannels);
      const float* src = w.src + pixel * w.src_step + first;
      float* __restrict top = w.dst + pixel * w.dst_step + first;
      int64_t* __restrict at = w.at + pixel * w.at_step + first;
      const int64_t place = w.place + pixel * w.place_step + first * w.plane;
      std::copy_n(src + w.offsets[0], count, top);
      std::fill_n(where, count, w.places[0]);
      for (int64_t k = 1; k < w.taps; ++k) take_larger(top, where, src + w.offsets[k], w.places[k], count);
      for (int64_t c = 0; c < count; ++c) at[c] = place + c * w.plane + where[c];
    }
}

}  // namespace

extern const LargestOps largest_table;
const LargestOps largest_table = {windows};

}  // namespace TENON_ISA_NAMESPACE
}  // namespace tenon::cpu
