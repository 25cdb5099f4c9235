// SPDX-License-Identifier: Apache-2.0
// Parameters of col2im.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct Col2ImParams {
  POINTER(const T) x;
  POINTER(T) y;
  i64 y_image;   // stride of y's images
  int y_pixel;   // and, channels last, of their pixels
  int channels;  // of an image
  int count;     // threads that have work, channels first
};

}  // namespace tenon::cuda
