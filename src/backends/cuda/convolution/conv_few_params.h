// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_few.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ConvFewParams {
  POINTER(const TX) x;
  POINTER(const float) w, bias;
  POINTER(const TY) residual;
  POINTER(TY) y;
  i64 xs[3], ys[3], rs[3];
  int out_h, out_w, pixels;
  float alpha, beta;
};

}  // namespace tenon::cuda
