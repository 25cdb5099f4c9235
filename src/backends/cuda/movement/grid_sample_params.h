// SPDX-License-Identifier: Apache-2.0
// Parameters of grid_sample.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct GridSampleParams {
  POINTER(const T) x;
  POINTER(const PLACE) grid;
  POINTER(T) y;
  i64 xs[4], gs[4], ys[4];  // strides as in ONNX: image, channel, row, column; image, row, column, coordinate
  int channels, in_h, in_w, out_h, out_w;
  u32 count;
};

}  // namespace tenon::cuda
