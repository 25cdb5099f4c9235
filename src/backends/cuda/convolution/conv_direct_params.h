// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_direct.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ConvDirectParams {
  POINTER(const TX) x;
  POINTER(const float) w, bias;  // w: [group][depth][channels_out]
  POINTER(const TY) residual;
  POINTER(TY) y;
  i64 xs[4], ys[4], rs[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, c_in, c_out, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int pixels, depth, tiles;  // tiles of channels in a group
  float alpha, beta;
};

}  // namespace tenon::cuda
