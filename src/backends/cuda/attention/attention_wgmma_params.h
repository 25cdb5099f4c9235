// SPDX-License-Identifier: Apache-2.0
// Parameters of attention_wgmma.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#include "backends/cuda/attention/attention.h"
#endif

namespace tenon::cuda {

struct alignas(128) AttentionWgmmaParams {
  TensorMap q, k, v, y;
  POINTER(const float) mask;
  Side mask_side;
  int heads, share, m, n, groups,
      items;  // share: heads with the same keys; groups of PER tiles of a head's queries; items: groups of all heads
  int masks;  // after so many of the first axis a mask repeats
  float scale, alpha, beta;  // the last two are of the activation
};

}  // namespace tenon::cuda
