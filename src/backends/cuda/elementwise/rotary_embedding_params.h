// SPDX-License-Identifier: Apache-2.0
// Parameters of rotary_embedding.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

/// Where rows begin: from one of the batch, a head and a place in the sequence to the next.
struct RotaryRows {
  i64 batch, head, place;
};

struct RotaryParams {
  POINTER(const T) x;
  POINTER(const CACHE) cosines;
  POINTER(const CACHE) sines;
  POINTER(const i64) positions;  // of places; null where the sines stand in their order
  POINTER(T) y;
  i64 count, cached;
  RotaryRows from, to;
  int heads, sequence, half, units, size;  // units: of a row, a pair or a number that stays
};

}  // namespace tenon::cuda
