// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_max_pool.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/convolution/int8_conv.h"
#endif

namespace tenon::cuda {

struct ConvMaxPoolParams {
  POINTER(const ELEMENT) x;
  POINTER(const uint2) w;
  Lists lists;
  POINTER(Y) y;
  i64 image, ys[3];  // strides
  int row, pixel, channel;
  int in_h, in_w, conv_h, conv_w, out_h, out_w;
  int pad_top, pad_left, pool_top, pool_left, skew, tiles_x, tiles_y, tiles, x_zero;
  float x_scale, x_inverse;
  Finish finish;
};

}  // namespace tenon::cuda
