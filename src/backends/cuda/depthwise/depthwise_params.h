// SPDX-License-Identifier: Apache-2.0
// Parameters of depthwise.cuh, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct DepthwiseParams {
  POINTER(const ELEMENT) x;
  POINTER(const float) w, bias;  // w: [tap][channel]
  POINTER(const TY) residual;
  POINTER(TY) y;
  i64 xs[3], ys[3], rs[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left;
  int strips, count;  // of pixels along a row; threads that have work, or strips below each other
  float alpha, beta;
};

}  // namespace tenon::cuda
