// SPDX-License-Identifier: Apache-2.0
// Parameters of rotary_embedding.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct RotaryParams {
  POINTER(const T) x;
  POINTER(const CACHE) cosines;
  POINTER(const CACHE) sines;
  POINTER(const i64) positions;  // of places; null where the sines stand in their order
  POINTER(T) y;
  i64 count, cached;
  i64 head_step, row_step, whole;          // whole: numbers of one of the batch
  int heads, sequence, half, units, size;  // units: of a row, a pair or a number that stays
};

}  // namespace tenon::cuda
