// SPDX-License-Identifier: Apache-2.0
// Parameters of gather.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct GatherParams {
  POINTER(const T) x;
  POINTER(const INDEX) at;
  POINTER(T) y;
  i64 size, inner, indices, count;  // count = outer * indices * inner
};

}  // namespace tenon::cuda
