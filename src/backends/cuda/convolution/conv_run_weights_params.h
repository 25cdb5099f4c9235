// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_run_weights.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ConvRunWeightsParams {
  POINTER(const TX) x;
  POINTER(const TW) w;
  POINTER(const TB) bias;
  POINTER(const TY) residual;
  POINTER(TY) y;
  i64 xs[4], ys[4], rs[4], ws[4];  // strides: image, row, pixel, channel; output, channel, row, column
  i64 count;
  int in_h, in_w, out_h, out_w, out_c, c_in, c_out;  // c_in, c_out: channels of a group
  int stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  float alpha, beta;
};

}  // namespace tenon::cuda
