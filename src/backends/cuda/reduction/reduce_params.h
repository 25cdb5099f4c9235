// SPDX-License-Identifier: Apache-2.0
// Parameters of reduce.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ReduceParams {
  POINTER(const TX) x = 0;
  POINTER(TY) y = 0;
  i64 outer = 1, length = 1, inner = 1;
  i64 step = 1, strides[4] = {};  // along a row, and of the axes of rows
  u32 dims[4] = {1, 1, 1, 1};
};

}  // namespace tenon::cuda
