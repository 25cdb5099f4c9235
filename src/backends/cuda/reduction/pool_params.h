// SPDX-License-Identifier: Apache-2.0
// Parameters of pool.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct PoolParams {
  POINTER(const T) x;
  POINTER(T) y;
  POINTER(i64) at;          // of the largest elements, in planes
  i64 xs[4], ys[4], is[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, channels, stride_h, stride_w, dilation_h, dilation_w;
  int pad_top, pad_left, pad_bottom, pad_right, count;
  int by_columns;  // places count down columns first
};

}  // namespace tenon::cuda
