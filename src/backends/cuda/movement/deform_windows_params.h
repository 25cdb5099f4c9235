// SPDX-License-Identifier: Apache-2.0
// Parameters of deform_windows.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct DeformWindowsParams {
  POINTER(const T) x;
  POINTER(const PLACE) offsets;
  POINTER(const PLACE) mask;
  POINTER(T) y;
  i64 count;                                      // vectors of the result
  int in_h, in_w, channels, out_h, out_w, group;  // channels, group: in vectors, of an image and of an offset group
  int stride_h, stride_w, dilation_h, dilation_w, top, left;
};

}  // namespace tenon::cuda
