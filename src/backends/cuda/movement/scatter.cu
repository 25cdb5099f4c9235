// SPDX-License-Identifier: Apache-2.0
// A dense tensor with some of its elements replaced: first a copy, then the updates, of which no two may go to one
// place. ELEMENT: any type of its bytes; INDEX: type of the indices, counted from the end where negative. An update
// that is outside is dropped. REDUCTION: updates are taken one after the other into what stands at their place, as
// WIDE, integers where WHOLE: 1 added, 2 multiplied, 3 the larger, 4 the smaller.
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

#ifdef REDUCTION
#include "wide.cuh"

__device__ __forceinline__ WIDE combined(WIDE a, WIDE b) {
  if (REDUCTION == 1) return a + b;
  if (REDUCTION == 2) return a * b;
  if (a != a || b != b) return a + b;
  return (REDUCTION == 3 ? a < b : b < a) ? b : a;
}

// A warp looks through all tuples for those of its slice.
extern "C" __global__ void __launch_bounds__(256)
    reduce_nd(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  constexpr int PIECES = 4, AT_ONCE = 8;
  const int lane = threadIdx.x & 31;
  const i64 warp = ((i64)blockIdx.x * 256 + threadIdx.x) / 32, parts = (p.slice + 31) / 32;
  const i64 begin = warp / parts * p.slice, e = warp % parts * 32 + lane, tuples = p.count / p.slice;
  if (begin >= p.all) return;
  const bool own = e < p.slice;
  WIDE sum = own ? wide(p.x[begin + e]) : 0;
  for (i64 first = 0; first < tuples; first += 32 * PIECES) {
    u32 hits[PIECES];
#pragma unroll
    for (int k = 0; k < PIECES; ++k) {
      const i64 tuple = first + k * 32 + lane;
      i64 to = 0;
      bool hit = tuple < tuples;
      for (int axis = 0; hit && axis < p.picked; ++axis)
        hit = place(p.at[tuple * p.picked + axis], p.sizes[axis], p.steps[axis], to);
      hits[k] = __ballot_sync(~0u, hit && to == begin);
    }
#pragma unroll
    for (int k = 0; k < PIECES; ++k)
      while (hits[k]) {
        // Of places that many updates go to: the loads do not wait for each other.
        int found[AT_ONCE];
        WIDE update[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
          found[j] = hits[k] ? k * 32 + __ffs(hits[k]) - 1 : -1;
          hits[k] &= hits[k] - 1;
          if (found[j] >= 0 && own) update[j] = wide(p.updates[(first + found[j]) * p.slice + e]);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j)
          if (found[j] >= 0 && own) sum = combined(sum, update[j]);
      }
  }
  if (own) p.y[begin + e] = narrow<T>(sum);
}

// A thread looks through the indices along the axis of its element.
extern "C" __global__ void __launch_bounds__(256)
    reduce_elements(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.all) return;
  i64 rest = i, from = 0, step = 0, stride = 1, own = 0, count = 0;
  bool inside = true;
#pragma unroll
  for (int axis = 5; axis >= 0; --axis) {
    const i64 at = rest % p.sizes[axis];
    rest /= p.sizes[axis];
    if (axis == p.picked) step = stride, own = at, count = p.dims[axis];
    else inside &= at < p.dims[axis], from += at * stride;
    stride *= p.dims[axis];
  }
  WIDE sum = wide(p.x[i]);
  for (i64 k = 0; inside && k < count; ++k) {
    const i64 index = p.at[from + k * step];
    if (index == own || index + p.sizes[p.picked] == own) sum = combined(sum, wide(p.updates[from + k * step]));
  }
  p.y[i] = narrow<T>(sum);
}
#endif
