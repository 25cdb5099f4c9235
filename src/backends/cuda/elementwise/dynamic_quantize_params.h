// SPDX-License-Identifier: Apache-2.0
// Parameters of dynamic_quantize.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct DynamicQuantizeParams {
  POINTER(const float) x;
  POINTER(u8) y;
  POINTER(float) scale;
  POINTER(u8) zero;
  POINTER(float2) parts;
  i64 count;
  int blocks;
};

}  // namespace tenon::cuda
