// SPDX-License-Identifier: Apache-2.0
// Parameters of gather_nd.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct GatherNdParams {
  POINTER(const T) x;
  POINTER(const INDEX) at;
  POINTER(T) y;
  i64 sizes[6], steps[6];  // of the axes that a tuple picks along
  i64 slice, count;        // elements of a slice, of the result
  i64 tuples, batch;       // tuples of an item of the batch, elements between items
  int picked;              // indices of a tuple
};

}  // namespace tenon::cuda
