// SPDX-License-Identifier: Apache-2.0
// Parameters of transpose.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct TransposeParams {
  POINTER(const WORD) x;
  POINTER(WORD) y;
  i64 x_batch, x_row, y_batch, y_row;  // y_row: from one column of the input to the next
  int rows, columns, tiles_r, tiles_c;
};

}  // namespace tenon::cuda
