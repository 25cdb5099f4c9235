// SPDX-License-Identifier: Apache-2.0
// Parameters of frames.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct FramesParams {
  POINTER(const u8) x;
  POINTER(u8) y;
  i64 image, frame, tap, row, pixel;  // bytes of x: from image to image, from window to window, in a window, ...
  u32 count;                          // vectors of the result
};

}  // namespace tenon::cuda
