// SPDX-License-Identifier: Apache-2.0
// Parameters of layer_norm.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct LayerNormParams {
  POINTER(const T) x;
  POINTER(const float) scale, bias;  // of a row; null where there is none
  POINTER(R) y;
  i64 rows, x_pitch, y_pitch;
  int length;
  float epsilon;
};

}  // namespace tenon::cuda
