// SPDX-License-Identifier: Apache-2.0
// Parameters of arg.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ArgParams {
  POINTER(const TX) x;
  POINTER(i64) y;
  i64 inner, lines;
  int size;
};

}  // namespace tenon::cuda
