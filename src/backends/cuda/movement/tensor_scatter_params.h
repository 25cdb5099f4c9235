// SPDX-License-Identifier: Apache-2.0
// Parameters of tensor_scatter.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct TensorScatterParams {
  POINTER(const T) past;
  POINTER(const T) update;
  POINTER(const i64) at;  // of each of the batch; null: 0
  POINTER(T) y;
  i64 all, one;            // elements, and those of one of the batch
  i64 most, count, inner;  // along the axis: of the cache, of the update; elements behind it
};

}  // namespace tenon::cuda
