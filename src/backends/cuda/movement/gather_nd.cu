// SPDX-License-Identifier: Apache-2.0
// Slices of a dense tensor, picked by tuples of indices along its first axes behind those of a batch. ELEMENT: any type
// of its bytes; INDEX: type of the indices, counted from the end where negative. An index that is outside reads the
// nearest slice.
typedef ELEMENT T;
#include "gather_nd_params.h"
typedef tenon::cuda::GatherNdParams Params;

extern "C" __global__ void __launch_bounds__(256)
    gather_nd(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const i64 tuple = i / p.slice;
  i64 from = tuple / p.tuples * p.batch + i % p.slice;
  for (int k = 0; k < p.picked; ++k) {
    i64 index = p.at[tuple * p.picked + k];
    if (index < 0) index += p.sizes[k];
    from += (index < 0 ? 0 : index >= p.sizes[k] ? p.sizes[k] - 1 : index) * p.steps[k];
  }
  p.y[i] = p.x[from];
}
