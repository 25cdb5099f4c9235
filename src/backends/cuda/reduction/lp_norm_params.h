// SPDX-License-Identifier: Apache-2.0
// Parameters of lp_norm.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct LpNormParams {
  POINTER(const T) x;
  POINTER(T) y;
  i64 rows, length, x_step, y_step;  // steps from an element of a row to the next
  i64 xs[4], ys[4];
  u32 dims[4];
  float epsilon;
  POINTER(float) sums;  // of the parts of rows: [part][row]
  i64 chunk;            // elements of a part
  int parts;
};

}  // namespace tenon::cuda
