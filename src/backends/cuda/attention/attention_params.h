// SPDX-License-Identifier: Apache-2.0
// Parameters of attention.cuh, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/attention/attention.h"
#endif

namespace tenon::cuda {

struct AttentionParams {
  POINTER(const T) q, k, v;
  POINTER(const float) mask;
  POINTER(T) y;
  POINTER(float) partial;  // of attention_row.cu alone, as the next and `splits`
  POINTER(u32) counters;
  Side q_side, k_side, v_side, mask_side, y_side;
  int heads, share, m, n;    // share: heads that have keys and values in common
  int splits;                // parts of the keys
  int masks;                 // after so many of the first axis a mask repeats
  float scale, alpha, beta;  // the last two are of the activation
};

}  // namespace tenon::cuda
