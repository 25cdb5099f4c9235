// SPDX-License-Identifier: Apache-2.0
// Parameters of int8_depthwise.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/convolution/int8_conv.h"
#endif

namespace tenon::cuda {

struct Int8DepthwiseParams {
  POINTER(const u8) x;
  POINTER(const i8) w;
  Lists lists;
  POINTER(const u8) residual;
  POINTER(TY) y;
  i64 xs[3], ys[3], rs[3];
  int in_h, in_w, out_h, out_w, channels, pad_top, pad_left, strips, count;
  u32 fill;
  Finish finish;
};

}  // namespace tenon::cuda
