// SPDX-License-Identifier: Apache-2.0
// Parameters of cumsum.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct CumSumParams {
  POINTER(const TX) x;
  POINTER(TX) y;
  i64 inner, lines;
  int size;
};

}  // namespace tenon::cuda
