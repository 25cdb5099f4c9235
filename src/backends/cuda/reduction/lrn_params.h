// SPDX-License-Identifier: Apache-2.0
// Parameters of lrn.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct LrnParams {
  POINTER(const T) x;
  POINTER(T) y;
  i64 count, step;  // step: from a channel to the next
  int channels, before, after;
  float alpha, beta, bias;  // alpha of each square
};

}  // namespace tenon::cuda
