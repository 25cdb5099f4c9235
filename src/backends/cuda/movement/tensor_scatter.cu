// SPDX-License-Identifier: Apache-2.0
// A cache with an update in the place of what begins at an index of each of the batch, along one axis. ELEMENT: any
// type of its bytes; CIRCULAR: the update goes on at the beginning, else an index that leaves no room takes the last
// that does.
typedef ELEMENT T;
#include "tensor_scatter_params.h"
typedef tenon::cuda::TensorScatterParams Params;

extern "C" __global__ void __launch_bounds__(256)
    tensor_scatter(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.all) return;
  const i64 index = p.at ? p.at[i / p.one] : 0, from = index < 0 ? 0 : index;
  const i64 first = CIRCULAR ? from % p.most : from > p.most - p.count ? p.most - p.count : from;
  const i64 slice = i / p.inner, piece = slice / p.most;
  i64 place = slice % p.most - first;
  if (CIRCULAR && place < 0) place += p.most;
  const bool fresh = place >= 0 && place < p.count;
  p.y[i] = fresh ? p.update[(piece * p.count + place) * p.inner + i % p.inner] : p.past[i];
}
