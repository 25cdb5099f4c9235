// SPDX-License-Identifier: Apache-2.0
// Matrices without what lies on one side of a diagonal. ELEMENT: any type of its bytes; UPPER 1: what lies above stays,
// and the diagonal; GIVEN 0: it is the main one.
typedef ELEMENT T;
#include "trilu_params.h"
typedef tenon::cuda::TriluParams Params;

extern "C" __global__ void __launch_bounds__(256) trilu(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const i64 diagonal = GIVEN ? *p.diagonal : 0, away = i % p.columns - i / p.columns % p.rows;
  p.y[i] = (UPPER ? away >= diagonal : away <= diagonal) ? p.x[i] : T(0);
}
