// SPDX-License-Identifier: Apache-2.0
// Parameters of reduce.cu where it reduces results of a program, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct ReduceProgramParams {
  u64 operand[8] = {};
  POINTER(TY) y = 0;
  i64 outer = 1, length = 1, inner = 1;
  i64 rows[8][4] = {}, along[8] = {}, beside[8] = {};  // strides of each operand: of the axes of rows, length and inner
  u32 dims[4] = {1, 1, 1, 1};
};

}  // namespace tenon::cuda
