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
  POINTER(float2) parts;
  i64 count, plane;                          // elements of a group, of a channel
  int channels, group, groups, share, most;  // group: channels of one; share: channels of one scale; most: parts
  float epsilon;
};

}  // namespace tenon::cuda
