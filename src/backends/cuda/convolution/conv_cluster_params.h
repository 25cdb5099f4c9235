// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_cluster.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/convolution/int8_conv.h"
#endif

namespace tenon::cuda {

struct alignas(128) ConvClusterParams {
  TensorMap a, b;
  POINTER(const float) numbers;  // by channel: bias, scale, what the zero point adds, inverses, scales of the residual
  POINTER(u8) to;
  POINTER(const u8) other;
  POINTER(const int) border_sums;  // [class][channel]
  POINTER(const u8) border_rows, border_columns;
  i64 to_pitch, other_pitch;  // bytes from pixel to pixel
  int pixels, out_h, out_w, classes;
  Finish finish;
};

}  // namespace tenon::cuda
