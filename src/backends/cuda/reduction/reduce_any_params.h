// SPDX-License-Identifier: Apache-2.0
// Parameters of reduce_any.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ReduceAnyParams {
  POINTER(const TX) x;
  POINTER(TY) y;
  i64 kept_strides[8], reduced_strides[8];  // in elements of x
  u32 kept[8], reduced[8];                  // sizes
  u32 count, length;                        // results, and what each is of
};

}  // namespace tenon::cuda
