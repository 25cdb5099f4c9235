// SPDX-License-Identifier: Apache-2.0
// Parameters of topk.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/reduction/lines.h"
#endif

namespace tenon::cuda {

struct TopkParams {
  POINTER(const TX) x;
  POINTER(TX) values;
  POINTER(i64) places;  // null where nobody asks
  i64 inner;
  Pitch of_values, of_places;
  int size, k;
};

}  // namespace tenon::cuda
