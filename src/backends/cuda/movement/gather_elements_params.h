// SPDX-License-Identifier: Apache-2.0
// Parameters of gather_elements.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct GatherElementsParams {
  POINTER(const T) x;
  POINTER(const INDEX) at;
  POINTER(T) y;
  i64 xs[6], as[6], ys[6];  // xs is 0 along the axis
  i64 size, step;
  u32 dims[6], count;
};

}  // namespace tenon::cuda
