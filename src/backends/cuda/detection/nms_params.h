// SPDX-License-Identifier: Apache-2.0
// Parameters of nms.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct NmsParams {
  POINTER(const float4) boxes;  // [batch][count]
  POINTER(const float) scores;  // [batch][classes][count]
  POINTER(int) kept, counts;   // [batch * classes][MOST], [batch * classes]
  POINTER(i64) rows, total;    // [room][3]: batch entry, class, box; zeros behind the last
  i64 room;
  int count, classes, lists;  // lists: batch entries times classes
  float overlap, limit;
};

}  // namespace tenon::cuda
