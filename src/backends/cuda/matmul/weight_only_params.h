// SPDX-License-Identifier: Apache-2.0
// Parameters of weight_only.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct WeightOnlyParams {
  POINTER(const T) x;
  POINTER(const To) residual;
  POINTER(To) y;
  POINTER(const u8) weights;     // [tile][group][load][lane][16 bytes]
  POINTER(const u8) scales;      // [tile][group][row][scale] of two rows, 8 apart, each
  POINTER(const u8) zeros;       // the same
  POINTER(const float) factors;  // of outputs
  POINTER(const float) bias;     // null where there is none
  i64 xs[3], ys[3], rs[3];       // strides of the axes before the last
  int second, third;             // sizes of the last two of these
  int m, n, k, tiles, groups;
  float alpha, beta;
};

}  // namespace tenon::cuda
