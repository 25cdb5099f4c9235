// SPDX-License-Identifier: Apache-2.0
// Copies a batch of matrices of WORD, turned: input rows run along `columns`, output rows along `rows`, by tiles in
// shared memory.
#include "transpose_params.h"
typedef tenon::cuda::TransposeParams Params;

extern "C" __global__ void __launch_bounds__(256)
    transpose(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ WORD tile[32][33];
  const int lane = threadIdx.x & 31, part = threadIdx.x >> 5;
  const int tc = blockIdx.x % p.tiles_c, tr = blockIdx.x / p.tiles_c % p.tiles_r,
            b = blockIdx.x / p.tiles_c / p.tiles_r;
  wait_for_previous(breadcrumb);
#pragma unroll
  for (int i = part; i < 32; i += 8) {
    const int r = tr * 32 + i, c = tc * 32 + lane;
    if (r < p.rows && c < p.columns) tile[i][lane] = p.x[b * p.x_batch + r * p.x_row + c];
  }
  __syncthreads();
#pragma unroll
  for (int i = part; i < 32; i += 8) {
    const int c = tc * 32 + i, r = tr * 32 + lane;
    if (r < p.rows && c < p.columns) p.y[b * p.y_batch + c * p.y_row + r] = tile[lane][i];
  }
}
