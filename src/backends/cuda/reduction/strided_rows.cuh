// SPDX-License-Identifier: Apache-2.0
// Where a row of the input and of the result begins that lies along four axes, by parameters of the type Params.
#pragma once
__device__ __forceinline__ void row_of(const Params& p, u32 row, const T*& x, T*& y) {
  x = p.x, y = p.y;
#pragma unroll
  for (int axis = 3; axis > 0; --axis) {
    const u32 at = row % p.dims[axis];
    row /= p.dims[axis];
    x += at * p.xs[axis], y += at * p.ys[axis];
  }
  x += row * p.xs[0], y += row * p.ys[0];
}
