// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_wgmma.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/convolution/int8_conv.h"
#endif

namespace tenon::cuda {

struct alignas(128) ConvWgmmaParams {
  TensorMap a, b, y, residual;
  POINTER(const float) numbers;  // by tile of channels
  POINTER(u8) to;
  POINTER(const u8) other;
  POINTER(const int) border_sums;  // [class][channel]
  POINTER(const u8) border_rows, border_columns;
  i64 to_pitch, other_pitch;  // bytes from pixel to pixel
  int pixels, tiles, out_h, out_w, tiles_w, tiles_h, classes;
  Finish finish;
};

}  // namespace tenon::cuda
