// SPDX-License-Identifier: Apache-2.0
// Parameters of conv_tf32.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct alignas(128) ConvTf32Params {
  TensorMap a, b;
  POINTER(const float) bias, other;
  POINTER(float) to;
  i64 to_pitch, other_pitch;  // elements from pixel to pixel
  int pixels, tiles, out_h, out_w;
  float alpha, beta;
};

}  // namespace tenon::cuda
