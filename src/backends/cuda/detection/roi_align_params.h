// SPDX-License-Identifier: Apache-2.0
// Parameters of roi_align.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct RoiAlignParams {
  POINTER(const T) x;
  POINTER(const PLACE) regions;
  POINTER(const INDEX) images;
  POINTER(T) y;
  i64 xs[4], ys[4];  // strides as in ONNX: image or region, channel, row, column
  int count, in_h, in_w, out_h, out_w, channels, ratio;
  u32 elements;
  float scale;
};

}  // namespace tenon::cuda
