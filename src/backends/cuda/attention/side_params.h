// SPDX-License-Identifier: Apache-2.0
// How a tensor of attention lies, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct Side {
  i64 batch[2], row, column;  // strides
};

}  // namespace tenon::cuda
