// SPDX-License-Identifier: Apache-2.0
// Rows divided by their norm, or by epsilon where that is more: the sum of absolute values (P 1), or the root of the
// sum of squares (P 2). ELEMENT: type. PIECES 0: ROWS (a power of two) of a block of 256 threads, the others share each
// row, EACH elements apiece; ACROSS 1: neighbouring threads take neighbouring rows, else neighbours of one. Else LANES
// lanes hold a row of LENGTH in one piece, in PIECES vectors of VEC elements each. SPLIT 1: several blocks share ROWS
// rows; a first launch leaves the sums of their parts, a second one adds them and divides.
typedef ELEMENT T;
#include "lp_norm_params.h"
typedef tenon::cuda::LpNormParams Params;
#include "strided_rows.cuh"
__device__ __forceinline__ float taken(float v) { return P == 1 ? fabsf(v) : v * v; }
__device__ __forceinline__ float factor_of(float sum, float epsilon) {
  const float norm = fmaxf(P == 1 ? sum : sqrtf(sum), epsilon);
  return norm == 0.f ? 0.f : 1.f / norm;
}

#if SPLIT
constexpr int ALONG = 256 / ROWS;

// What a thread works on: some of a block's part of a row.
struct Part {
  int along;  // which of the threads of the row
  i64 row, begin, end;
  bool alive;
  const T* x;
  T* y;
  __device__ __forceinline__ Part(const Params& p)
      : along(threadIdx.x / ROWS),
        row((i64)blockIdx.y * ROWS + threadIdx.x % ROWS),
        begin(blockIdx.x * p.chunk),
        end(min(begin + p.chunk, p.length)),
        alive(row < p.rows) {
    row_of(p, alive ? row : 0, x, y);
  }
};

// The sum over the threads of the same row, for each of them.
__device__ __forceinline__ float total(float sum, int along) {
  __shared__ float sums[ROWS][ALONG];
  float(&own)[ALONG] = sums[threadIdx.x % ROWS];
  own[along] = sum;
#pragma unroll
  for (int step = ALONG / 2; step; step /= 2) {
    __syncthreads();
    if (along < step) own[along] += own[along + step];
  }
  __syncthreads();
  return own[0];
}

extern "C" __global__ void __launch_bounds__(256)
    part_sums(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const Part own(p);
  wait_for_previous(breadcrumb);
  float sum = 0.f;
#pragma unroll 4
  for (i64 k = own.begin + own.along; k < own.end; k += ALONG) sum += taken(f32_of(own.x[k * p.x_step]));
  sum = total(sum, own.along);
  if (own.alive && own.along == 0) p.sums[blockIdx.x * p.rows + own.row] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    lp_norm(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const Part own(p);
  wait_for_previous(breadcrumb);
  float sum = 0.f;
#pragma unroll 4
  for (int part = own.along; part < p.parts; part += ALONG) sum += p.sums[part * p.rows + (own.alive ? own.row : 0)];
  const float factor = factor_of(total(sum, own.along), p.epsilon);
  if (!own.alive) return;
#pragma unroll 4
  for (i64 k = own.begin + own.along; k < own.end; k += ALONG)
    own.y[k * p.y_step] = of_f32<T>(f32_of(own.x[k * p.x_step]) * factor);
}
#elif PIECES
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};

extern "C" __global__ void __launch_bounds__(256)
    lp_norm(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int lane = threadIdx.x % LANES;
  const i64 row = (i64)blockIdx.x * (256 / LANES) + threadIdx.x / LANES;
  const bool alive = row < p.rows;
  const T* x;
  T* y;
  row_of(p, alive ? row : 0, x, y);
  float v[PIECES][VEC], sum = 0.f;
#pragma unroll
  for (int piece = 0; piece < PIECES; ++piece) {
    const int at = (piece * LANES + lane) * VEC;
    Vec in = {};
    if (at < LENGTH) in = *(const Vec*)(x + at);
#pragma unroll
    for (int e = 0; e < VEC; ++e) sum += taken(v[piece][e] = f32_of(in.e[e]));
  }
#pragma unroll
  for (int step = LANES / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (!alive) return;
  const float factor = factor_of(sum, p.epsilon);
#pragma unroll
  for (int piece = 0; piece < PIECES; ++piece) {
    const int at = (piece * LANES + lane) * VEC;
    Vec out;
#pragma unroll
    for (int e = 0; e < VEC; ++e) out.e[e] = of_f32<T>(v[piece][e] * factor);
    if (at < LENGTH) *(Vec*)(y + at) = out;
  }
}
#else
constexpr int PARTS = 256 / ROWS;

extern "C" __global__ void __launch_bounds__(256)
    lp_norm(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ float sums[ROWS][PARTS];
  const int own = ACROSS ? threadIdx.x % ROWS : threadIdx.x / PARTS;
  const int part = ACROSS ? threadIdx.x / ROWS : threadIdx.x % PARTS;
  const i64 row = (i64)blockIdx.x * ROWS + own;
  const bool alive = row < p.rows;
  const T* x;
  T* y;
  row_of(p, alive ? row : 0, x, y);
  wait_for_previous(breadcrumb);
  float v[EACH], sum = 0.f;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int k = part + i * PARTS;
    v[i] = k < p.length ? f32_of(x[k * p.x_step]) : 0.f;
    sum += taken(v[i]);
  }
  sums[own][part] = sum;
#pragma unroll
  for (int step = PARTS / 2; step; step /= 2) {
    __syncthreads();
    if (part < step) sums[own][part] += sums[own][part + step];
  }
  __syncthreads();
  if (!alive) return;
  const float factor = factor_of(sums[own][0], p.epsilon);
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const int k = part + i * PARTS;
    if (k < p.length) y[k * p.y_step] = of_f32<T>(v[i] * factor);
  }
}
#endif
