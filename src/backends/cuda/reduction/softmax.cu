// SPDX-License-Identifier: Apache-2.0
// Softmax of rows that lie along four axes. ELEMENT: type; LOG: the logarithm; LANES lanes share a row.
// PIECES 0: rows are read three times, an element at a time, by up to the whole block of THREADS; with SIDE above 1 as
// many rows, whose neighbours lie side by side, are a block's, their lanes SIDE apart. Else INNER rows side by side, a
// power of two, are LENGTH * INNER elements in one piece; LANES lanes hold them in PIECES vectors of VEC elements each.
typedef ELEMENT T;
#include "softmax_params.h"
typedef tenon::cuda::SoftmaxParams Params;
#include "strided_rows.cuh"

#if PIECES
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};
// Element e of a vector is of row e % COLUMNS of those that the lane has a part of.
constexpr int COLUMNS = INNER < VEC ? INNER : VEC, FIRST_STEP = INNER < VEC ? 1 : INNER / VEC;
static_assert(FIRST_STEP <= LANES, "a lane for each row");

extern "C" __global__ void __launch_bounds__(256)
    softmax(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int lane = threadIdx.x % LANES;
  const i64 row = ((i64)blockIdx.x * (256 / LANES) + threadIdx.x / LANES) * INNER;
  const bool alive = row < p.rows;
  const T* x;
  T* y;
  row_of(p, alive ? row : 0, x, y);
  const float least = -__int_as_float(0x7f800000);
  float v[PIECES][VEC], top[COLUMNS], sum[COLUMNS];
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) top[c] = least, sum[c] = 0.f;
#pragma unroll
  for (int piece = 0; piece < PIECES; ++piece) {
    const int at = (piece * LANES + lane) * VEC;
    if (at < LENGTH * INNER) {
      const Vec in = *(const Vec*)(x + at);
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[piece][e] = f32_of(in.e[e]);
    } else {
#pragma unroll
      for (int e = 0; e < VEC; ++e) v[piece][e] = least;
    }
#pragma unroll
    for (int e = 0; e < VEC; ++e) top[e % COLUMNS] = fmaxf(top[e % COLUMNS], v[piece][e]);
  }
#pragma unroll
  for (int step = FIRST_STEP; step < LANES; step *= 2)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) top[c] = fmaxf(top[c], __shfl_xor_sync(~0u, top[c], step));
#pragma unroll
  for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      const float less = v[piece][e] - top[e % COLUMNS], power = expf(less);
      sum[e % COLUMNS] += power;
      v[piece][e] = LOG ? less : power;
    }
#pragma unroll
  for (int step = FIRST_STEP; step < LANES; step *= 2)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) sum[c] += __shfl_xor_sync(~0u, sum[c], step);
  if (!alive) return;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) sum[c] = LOG ? logf(sum[c]) : 1.f / sum[c];
#pragma unroll
  for (int piece = 0; piece < PIECES; ++piece) {
    const int at = (piece * LANES + lane) * VEC;
    Vec out;
#pragma unroll
    for (int e = 0; e < VEC; ++e)
      out.e[e] = of_f32<T>(LOG ? v[piece][e] - sum[e % COLUMNS] : v[piece][e] * sum[e % COLUMNS]);
    if (at < LENGTH * INNER) *(Vec*)(y + at) = out;
  }
}
#else
// Lanes of a row that are in one warp, and warps that have some; those stand SIDE apart.
constexpr int WARP = SIDE > 1 ? 32 / SIDE : LANES < 32 ? LANES : 32;
constexpr int WARPS = SIDE > 1 ? THREADS / 32 : LANES / WARP;

struct Larger {
  static __device__ float of(float a, float b) { return fmaxf(a, b); }
};
struct Plus {
  static __device__ float of(float a, float b) { return a + b; }
};

/// Of all lanes of a row, the same in each; `part`: places for each warp, which no other call uses.
template <class Op>
__device__ float over_row(float v, float (*part)[SIDE]) {
#pragma unroll
  for (int step = WARP / 2; step; step /= 2) v = Op::of(v, __shfl_xor_sync(~0u, v, step * SIDE));
  if (WARPS == 1) return v;
  const int own = threadIdx.x % SIDE;
  if (threadIdx.x % 32 < SIDE) part[threadIdx.x / 32][own] = v;
  __syncthreads();
  v = part[0][own];
#pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) v = Op::of(v, part[warp][own]);
  return v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int lane = SIDE > 1 ? threadIdx.x / SIDE : threadIdx.x % LANES;
  const i64 row = SIDE > 1 ? (i64)blockIdx.x * SIDE + threadIdx.x % SIDE
                           : (i64)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
  const bool alive = row < p.rows;
  const T* x;
  T* y;
  row_of(p, alive ? row : 0, x, y);
  const i64 length = alive ? p.length : 0;
  float top = -__int_as_float(0x7f800000);
#pragma unroll 4
  for (i64 k = lane; k < length; k += LANES) top = fmaxf(top, f32_of(x[k * p.x_step]));
  __shared__ float tops[WARPS][SIDE], sums[WARPS][SIDE];
  top = over_row<Larger>(top, tops);
  float sum = 0.f;
#pragma unroll 4
  for (i64 k = lane; k < length; k += LANES) sum += expf(f32_of(x[k * p.x_step]) - top);
  sum = over_row<Plus>(sum, sums);
  const float scale = LOG ? logf(sum) : 1.f / sum;
#pragma unroll 4
  for (i64 k = lane; k < length; k += LANES) {
    const float v = f32_of(x[k * p.x_step]) - top;
    y[k * p.y_step] = of_f32<T>(LOG ? v - scale : expf(v) * scale);
  }
}
#endif
