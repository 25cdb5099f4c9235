// SPDX-License-Identifier: Apache-2.0
// Parameters of matmul.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

struct MatmulParams {
  POINTER(const T) a, b;
  POINTER(const float) bias;  // of columns or rows; null where there is none
  POINTER(const To) residual;
  POINTER(To) c;
  i64 a_batch[3], b_batch[3], c_batch[3], r_batch[3];  // strides of the batch's axes
  i64 am, ak, bk, bn, cm, cn, rm, rn;
  int batch[3];
  int m, n, k;
  POINTER(float) sums;  // of the parts of the depth, each of all results, where there are several
  int parts;
  float alpha, beta;
};

}  // namespace tenon::cuda
