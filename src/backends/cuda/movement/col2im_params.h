// SPDX-License-Identifier: Apache-2.0
// Parameters of col2im.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct Col2ImParams {
  POINTER(const T) x;
  POINTER(T) y;
  int count;  // threads
};

}  // namespace tenon::cuda
