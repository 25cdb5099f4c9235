// SPDX-License-Identifier: Apache-2.0
// Parameters of unfold.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct UnfoldParams {
  POINTER(const T) x;
  POINTER(T) y;
  i64 xs[4];  // strides of images, channels, lines and columns
};

}  // namespace tenon::cuda
