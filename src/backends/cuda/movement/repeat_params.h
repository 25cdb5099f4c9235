// SPDX-License-Identifier: Apache-2.0
// Parameters of repeat.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct RepeatParams {
  POINTER(const T) x;
  POINTER(T) y;
  i64 xs[3], ys[3];  // image, row, pixel
  u32 height, width;
};

}  // namespace tenon::cuda
