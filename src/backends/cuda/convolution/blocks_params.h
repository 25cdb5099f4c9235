// SPDX-License-Identifier: Apache-2.0
// Parameters of blocks.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct BlocksParams {
  POINTER(const ELEMENT) x;
  POINTER(TY) y;
  i64 xs[4];  // strides: image, row, pixel, channel
  int in_h, in_w, out_h, out_w, count;
};

}  // namespace tenon::cuda
