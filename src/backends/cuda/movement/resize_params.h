// SPDX-License-Identifier: Apache-2.0
// Parameters of resize.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ResizeParams {
  POINTER(const T) x;
  POINTER(T) y;
  POINTER(const i64) offsets[3];
  POINTER(const float) weights[3];
  i64 xs[5], ys[5];  // of the resized axes: 0 in xs
  u32 dims[5];       // the last in vectors
  u32 count;
};

}  // namespace tenon::cuda
