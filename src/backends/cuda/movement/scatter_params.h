// SPDX-License-Identifier: Apache-2.0
// Parameters of scatter.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ScatterParams {
  POINTER(const T) x;
  POINTER(const INDEX) at;
  POINTER(const T) updates;
  POINTER(T) y;
  i64 sizes[6], steps[6];  // along the axes of a tuple of indices; of the data, for elements
  u32 dims[6];             // of the updates, for elements
  i64 slice, count, all;   // elements that a tuple replaces, of the updates, of the result
  int picked;              // indices of a tuple; the axis, for elements
};

}  // namespace tenon::cuda
