// SPDX-License-Identifier: Apache-2.0
// Parameters of trilu.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct TriluParams {
  POINTER(const T) x;
  POINTER(const i64) diagonal;
  POINTER(T) y;
  i64 count;
  int rows, columns;
};

}  // namespace tenon::cuda
