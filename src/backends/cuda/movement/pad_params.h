// SPDX-License-Identifier: Apache-2.0
// Parameters of pad.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct PadParams {
  POINTER(const T) x;
  POINTER(T) y;
  i64 xs[6], ys[6];
  int sizes[6], before[6];
  u32 dims[6], count;
  u64 fill;
};

}  // namespace tenon::cuda
