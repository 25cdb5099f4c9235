// SPDX-License-Identifier: Apache-2.0
// Parameters of col2im.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

/// Of three axes each, from the outermost on; those that an image does not have are of size 1.
struct Col2ImParams {
  POINTER(const T) x;
  POINTER(T) y;
  i64 count;  // elements of the images
  int image[3], block[3], steps[3], strides[3], dilations[3], pads[3];
  int taps, blocks;  // elements of a block, and blocks of an image
};

}  // namespace tenon::cuda
