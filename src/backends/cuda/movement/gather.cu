// SPDX-License-Identifier: Apache-2.0
// Slices of a dense tensor seen as outer x size x inner, picked along size. ELEMENT: any type of its bytes; INDEX: type
// of the indices, counted from the end where negative; COUNT: type that holds all places. An index that is outside
// reads the nearest slice.
typedef ELEMENT T;
#include "gather_params.h"
typedef tenon::cuda::GatherParams Params;

extern "C" __global__ void __launch_bounds__(256)
    gather(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 place = (i64)blockIdx.x * 256 + threadIdx.x;
  if (place >= p.count) return;
  const COUNT i = place, inner = p.inner, indices = p.indices, rest = i / inner, outer = rest / indices;
  i64 index = p.at[rest % indices];
  if (index < 0) index += p.size;
  index = index < 0 ? 0 : index >= p.size ? p.size - 1 : index;
  p.y[place] = p.x[(outer * p.size + index) * p.inner + i % inner];
}
