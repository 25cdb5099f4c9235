// SPDX-License-Identifier: Apache-2.0
// Parameters of int8_direct.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/convolution/int8_conv.h"
#endif

namespace tenon::cuda {

struct Int8DirectParams {
  POINTER(const TX) x;
  POINTER(const Weight) w;  // [group][depth][channels_out]
  Lists lists;
  POINTER(const u8) residual;
  POINTER(TY) y;
  POINTER(const float) dynamic_scale;
  POINTER(const u8) dynamic_zero;  // null: 0
  i64 xs[4], ys[4], rs[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, c_in, c_out, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int pixels, depth, tiles;  // tiles of channels in a group
  int x_zero;
  float x_scale;
  Finish finish;
};

}  // namespace tenon::cuda
