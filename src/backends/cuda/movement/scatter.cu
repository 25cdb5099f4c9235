// SPDX-License-Identifier: Apache-2.0
// A dense tensor with some of its elements replaced: first a copy, then the updates, of which no two may go to one
// place. ELEMENT: any type of its bytes; INDEX: type of the indices, counted from the end where negative. An update
// that is outside is dropped.
typedef ELEMENT T;
#include "scatter_params.h"
typedef tenon::cuda::ScatterParams Params;

extern "C" __global__ void __launch_bounds__(256) keep(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i < p.all) p.y[i] = p.x[i];
}

__device__ __forceinline__ bool place(i64 index, i64 size, i64 step, i64& to) {
  if (index < 0) index += size;
  to += index * step;
  return index >= 0 && index < size;
}

extern "C" __global__ void __launch_bounds__(256)
    scatter_nd(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const i64 tuple = i / p.slice;
  i64 to = i % p.slice;
  bool inside = true;
  for (int k = 0; k < p.picked; ++k) inside &= place(p.at[tuple * p.picked + k], p.sizes[k], p.steps[k], to);
  if (inside) p.y[to] = p.updates[i];
}

extern "C" __global__ void __launch_bounds__(256) scatter_elements(const Breadcrumb breadcrumb,
                                                                   const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  i64 rest = i, to = 0;
  bool inside = true;
#pragma unroll
  for (int axis = 5; axis >= 0; --axis) {
    const i64 own = rest % p.dims[axis];
    rest /= p.dims[axis];
    if (axis == p.picked) inside = place(p.at[i], p.sizes[axis], p.steps[axis], to);
    else to += own * p.steps[axis];
  }
  if (inside) p.y[to] = p.updates[i];
}
