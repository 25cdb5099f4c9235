// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_mma.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/convolution/int8_conv.h"
#endif

namespace tenon::cuda {

struct ConvMmaParams {
  POINTER(const X) x, w;
  Lists lists;
  POINTER(const Other) residual;
  POINTER(TY) y;
  POINTER(Sum) partial;
  POINTER(u32) counters;
  i64 xs[3], ys[3], rs[3];  // strides: image, row, pixel
  int in_h, in_w, out_h, out_w, c_in, c_out, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int pixels, chunks, steps, tiles_n, groups, splits;
  int c_real;  // c_in is padded to whole chunks
  u32 fill;
  Finish finish;
};

}  // namespace tenon::cuda
