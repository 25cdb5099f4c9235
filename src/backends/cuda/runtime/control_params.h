// SPDX-License-Identifier: Apache-2.0
// Parameters of control.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct BranchParams {
  POINTER(const bool) condition;
  u64 yes, no;  // handles of the nodes that hold the bodies
};

struct LoopParams {
  POINTER(const void) trips;         // null: as many as the condition allows
  POINTER(const bool) condition;     // for this round; null: it holds
  POINTER(i64) round;                // that runs next
  POINTER(i64) count;                // of all rounds so far, those of loops around it too
  POINTER(bool) inside;              // the condition as the body sees it
  POINTER(volatile u32) alarm;       // of the host: the step that had to stop; null: nobody asks
  u64 handle;                        // of the node that holds the body
  i64 limit;                         // of the count
  u32 step;
  int wide;                          // the number of trips is an int64
  int first, outermost;              // before the loop begins; it lies in no other
};

}  // namespace tenon::cuda
