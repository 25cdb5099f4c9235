// SPDX-License-Identifier: Apache-2.0
// Parameters of pointwise_pair.cu, for the host and for NVRTC.
#pragma once
#ifdef __CUDACC_RTC__
#include "int8_params.h"
#else
#include "backends/cuda/common/int8_params.h"
#endif

namespace tenon::cuda {

struct PointwisePairParams {
  POINTER(const u8) x;
  POINTER(const u8) residual;
  POINTER(u8) wide;
  POINTER(u8) narrow;
  POINTER(const u8) w;
  int x_pitch, residual_pitch, wide_pitch, narrow_pitch;  // bytes from pixel to pixel
  int pixels, tiles;
  Finish first, second;
};

}  // namespace tenon::cuda
