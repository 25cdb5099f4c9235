// SPDX-License-Identifier: Apache-2.0
// Parameters of depthwise_diagonal.cuh, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct DepthwiseDiagonalParams {
  POINTER(const float16) x, w;
  POINTER(const float) bias;
  POINTER(float16) y;
  i64 xs[3], ys[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left, groups, tiles_x, tiles_y, units;
  float alpha, beta;
};

}  // namespace tenon::cuda
