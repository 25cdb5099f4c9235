// SPDX-License-Identifier: Apache-2.0
// Steps between lines and along one, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct Pitch {
  i64 outer = 0, step = 0, inner = 0;
};

}  // namespace tenon::cuda
