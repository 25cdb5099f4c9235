// SPDX-License-Identifier: Apache-2.0
// What finishes sums of products of INT8, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct Finish {
  float inverse, r_scale, r_base;  // 1 / scale of the result; scale of the residual; 2^23 + its zero point
  float alpha, beta;
  int y_zero;  // YZ 1: less the bits of 1.5 * 2^23
};  // IN_STEPS: the scale of the residual, alpha and beta are in steps, and the first and the third are not read

// Numbers by channel; the last two where LISTED.
struct Lists {
  POINTER(const float) bias, scale;
  POINTER(const int) zero_sums;
  POINTER(const float) inverses, r_scales;
};

}  // namespace tenon::cuda
