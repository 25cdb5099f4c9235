// SPDX-License-Identifier: Apache-2.0
// Parameters of group_norm.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct GroupNormParams {
  POINTER(const T) x;
  POINTER(const float) scale, bias;
  POINTER(T) y;
  POINTER(float2) parts, joined;
  i64 image;  // elements of one
  // lines: of an image; units: vectors of a group, or pixels; most: parts of a line
  int channels, group, lines, units, most;
  u32 plane;  // vectors of a channel
  float epsilon, alpha, beta;
};

}  // namespace tenon::cuda
