// SPDX-License-Identifier: Apache-2.0
// For each place of a tensor of indices, the element of another tensor at that place, but at the index along one axis.
// ELEMENT: any type of its bytes; INDEX: type of the indices, counted from the end where negative. An index that is
// outside reads the nearest element.
typedef ELEMENT T;
#include "gather_elements_params.h"
typedef tenon::cuda::GatherElementsParams Params;

extern "C" __global__ void __launch_bounds__(256)
    gather_elements(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  i64 from = 0, where = 0, to = 0;
  u32 rest = i;
#pragma unroll
  for (int axis = 5; axis >= 0; --axis) {
    const u32 at = rest % p.dims[axis];
    rest /= p.dims[axis];
    from += at * p.xs[axis], where += at * p.as[axis], to += at * p.ys[axis];
  }
  i64 index = p.at[where];
  if (index < 0) index += p.size;
  index = index < 0 ? 0 : index >= p.size ? p.size - 1 : index;
  p.y[to] = p.x[from + index * p.step];
}
