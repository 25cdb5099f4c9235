// SPDX-License-Identifier: Apache-2.0
// What the conditional nodes of a graph do next. One thread each.
#include "control_params.h"

// The driver's.
extern "C" __device__ void cudaGraphSetConditional(u64 handle, u32 value);

extern "C" __global__ void __launch_bounds__(1)
    choose_branch(const Breadcrumb breadcrumb, const __grid_constant__ tenon::cuda::BranchParams p) {
  wait_for_previous(breadcrumb);
  const bool holds = *p.condition;
  cudaGraphSetConditional(p.yes, holds);
  cudaGraphSetConditional(p.no, !holds);
}

extern "C" __global__ void __launch_bounds__(1)
    next_round(const Breadcrumb breadcrumb, const __grid_constant__ tenon::cuda::LoopParams p) {
  wait_for_previous(breadcrumb);
  const i64 round = p.first ? 0 : *p.round + 1, count = p.first && p.outermost ? 0 : *p.count;
  bool goes_on = p.condition == nullptr || *p.condition;
  if (p.trips != nullptr) goes_on = goes_on && round < (p.wide ? *(const i64*)p.trips : *(const int*)p.trips);
  if (goes_on && count >= p.limit) {
    goes_on = false;
    if (p.alarm != nullptr) *p.alarm = p.step;
  }
  *p.round = round;
  *p.count = count + goes_on;
  *p.inside = true;
  cudaGraphSetConditional(p.handle, goes_on);
}
