// SPDX-License-Identifier: Apache-2.0
// Parameters of stem_mma.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct StemMmaParams {
  POINTER(const ELEMENT) x;
  POINTER(const uint2) w;
  POINTER(const float) bias;
  POINTER(float16) y;
  i64 xs[4], ys[3];  // strides: image, row, pixel, channel
  int in_h, in_w, blocks_h, blocks_w, out_h, out_w, pad_top, pad_left, tiles_x, tiles_y;
  float alpha, beta;
};

}  // namespace tenon::cuda
