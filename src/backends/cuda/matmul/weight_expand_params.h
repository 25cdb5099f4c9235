// SPDX-License-Identifier: Apache-2.0
// Parameters of weight_expand.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct WeightExpandParams {
  POINTER(const u8) weights;  // as in ops/weight_only.h
  POINTER(const SCALE) scales;
  POINTER(const u8) zeros;
  POINTER(const int) channels;  // of rows; n and more: zeros
  POINTER(ELEMENT) to;          // [row][depth]
  i64 row_bytes;
  int n, k, blocks, depth;
};

}  // namespace tenon::cuda
