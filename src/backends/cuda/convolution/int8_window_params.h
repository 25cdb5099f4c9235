// SPDX-License-Identifier: Apache-2.0
// Parameters of int8_window.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/convolution/int8_conv.h"
#endif

namespace tenon::cuda {

struct Int8WindowParams {
  POINTER(const X) x;
  POINTER(const uint2) w;
  Lists lists;
  POINTER(const u8) residual;
  POINTER(u8) y;
  i64 xs[4], ys[3], rs[3];                             // strides: image, row, pixel, channel
  int in_h, in_w, blocks_h, blocks_w, out_h, out_w;    // blocks: pixels in shared memory
  int pad_top, pad_left, tiles_x, tiles_y, tiles, x_zero;
  float x_scale, x_inverse;
  Finish finish;
};

}  // namespace tenon::cuda
