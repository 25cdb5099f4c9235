// SPDX-License-Identifier: Apache-2.0
// Parameters of inverted_bottleneck.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct InvertedBottleneckParams {
  POINTER(const float16) x;
  POINTER(const u8) w;
  POINTER(const float) bias;
  POINTER(const float16) residual;
  POINTER(float16) y;
  POINTER(float) partial;
  POINTER(u32) counters;
  i64 xs[3], ys[3], rs[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, c_in, c_out, pad_top, pad_left, tiles_h, tiles_w, hidden, splits;
  float alpha_e, beta_e, alpha_d, beta_d, alpha, beta;
};

}  // namespace tenon::cuda
