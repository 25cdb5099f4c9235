// SPDX-License-Identifier: Apache-2.0
// Parameters of recurrence.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct RecurrenceParams {
  POINTER(const T) gates, weights;  // rows of R of PITCH numbers
  POINTER(const float) bias;       // null where there is none, as are states and results
  POINTER(const STATE) first, first_cell;
  POINTER(T) y, last, last_cell;
  int sequence, batch, directions, reverse;
};

}  // namespace tenon::cuda
