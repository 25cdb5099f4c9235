// SPDX-License-Identifier: Apache-2.0
// Reduction of a tensor seen as outer x length x inner, along length; dense, but that rows may lie along four axes
// where inner is 1. TX, TY: types; OP 0 sum, 1 mean, 2 max, 3 min, 4 root of the sum of squares, 5 that sum, 6 sum of
// magnitudes. INNER 1: a block ROWS rows, one for each LANES lanes of a warp or one for all; else LANES * VEC
// neighbours of inner a block or, together, the blocks of a cluster of CLUSTER (compute capability 9.0 and later);
// their other threads are along length. PROGRAM: what is reduced are results of an elementwise program, by a Reader and
// Params that stand before this text.
#ifndef PROGRAM
#include "reduce_params.h"
typedef tenon::cuda::ReduceParams Params;
struct __align__(VEC * sizeof(TX)) Vec {
  TX e[VEC];
};
/// Elements of a row or, from `first` of its inner axis on, VEC neighbours, by their place k along it.
struct Reader {
  const TX* x;
  i64 step;
  __device__ __forceinline__ Reader(const Params& p, i64 outer, i64 first) {
#if INNER == 1
    x = p.x, step = p.step;
    u32 rest = outer;
#pragma unroll
    for (int axis = 3; axis > 0; --axis) x += rest % p.dims[axis] * p.strides[axis], rest /= p.dims[axis];
    x += rest * p.strides[0];
#else
    x = p.x + outer * p.length * p.inner + first, step = p.inner;
#endif
  }
  __device__ __forceinline__ void read(i64 k, float (&values)[VEC]) const {
    const Vec v = *(const Vec*)(x + k * step);
#pragma unroll
    for (int e = 0; e < VEC; ++e) values[e] = f32_of(v.e[e]);
  }
};
#endif
constexpr bool ADDS = OP < 2 || OP > 3;
__device__ __forceinline__ float taken(float x) { return OP == 4 || OP == 5 ? x * x : OP == 6 ? fabsf(x) : x; }
__device__ __forceinline__ float given(float all, i64 length) {
  return OP == 1 ? all / length : OP == 4 ? sqrtf(all) : all;
}
__device__ __forceinline__ float join(float a, float b) {
  if (ADDS) return a + b;
  if (a != a) return a;
  return OP == 2 ? (b > a || b != b ? b : a) : (b < a || b != b ? b : a);
}
__device__ __forceinline__ float nothing() {
  return ADDS ? 0.f : OP == 2 ? -__int_as_float(0x7f800000) : __int_as_float(0x7f800000);
}

#if CLUSTER > 1
#define TOGETHER __cluster_dims__(CLUSTER, 1, 1)
#else
#define TOGETHER
#endif
extern "C" __global__ void TOGETHER __launch_bounds__(THREADS)
    reduce(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#if INNER == 1
  constexpr int SHARES = ROWS == 1 ? THREADS : LANES;  // of a row
  float sum = nothing();
  const i64 row = (i64)blockIdx.x * ROWS + threadIdx.x / SHARES;
  const bool alive = row < p.outer;
  const Reader reader(p, alive ? row : 0, 0);
#pragma unroll 4
  for (i64 k = threadIdx.x % SHARES; k < p.length; k += SHARES) {
    float value[1];
    reader.read(k, value);
    sum = join(sum, taken(value[0]));
  }
#pragma unroll
  for (int step = LANES / 2; step; step /= 2) sum = join(sum, __shfl_xor_sync(~0u, sum, step));
#if ROWS == 1
  constexpr int WARPS = THREADS / 32;
  __shared__ float parts[WARPS];
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (warp != 0) return;
  sum = lane < WARPS ? parts[lane] : nothing();
#pragma unroll
  for (int step = 16; step; step /= 2) sum = join(sum, __shfl_xor_sync(~0u, sum, step));
#endif
  if (alive && lane % LANES == 0) p.y[row] = of_f32<TY>(given(sum, p.length));
#else
  constexpr int WIDTH = LANES * VEC, WARPS = THREADS / 32, BESIDE = 32 / LANES;
  __shared__ float parts[WARPS][WIDTH];
  const i64 tile = blockIdx.x / CLUSTER, tiles = (p.inner + WIDTH - 1) / WIDTH, outer = tile / tiles,
            first = tile % tiles * WIDTH, i = first + lane % LANES * VEC;
  const int rank = blockIdx.x % CLUSTER;
  float sum[VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) sum[e] = nothing();
  if (i < p.inner) {
    const Reader reader(p, outer, i);
#pragma unroll 4
    for (i64 k = (rank * WARPS + warp) * BESIDE + lane / LANES; k < p.length; k += CLUSTER * WARPS * BESIDE) {
      float values[VEC];
      reader.read(k, values);
#pragma unroll
      for (int e = 0; e < VEC; ++e) sum[e] = join(sum[e], taken(values[e]));
    }
  }
#pragma unroll
  for (int step = LANES; step < 32; step *= 2)
#pragma unroll
    for (int e = 0; e < VEC; ++e) sum[e] = join(sum[e], __shfl_xor_sync(~0u, sum[e], step));
  if (lane < LANES)
#pragma unroll
    for (int e = 0; e < VEC; ++e) parts[warp][lane * VEC + e] = sum[e];
  __syncthreads();
  const bool owns = threadIdx.x < WIDTH && first + threadIdx.x < p.inner;
  float all = nothing();
  if (owns)
#pragma unroll
    for (int k = 0; k < WARPS; ++k) all = join(all, parts[k][threadIdx.x]);
#if CLUSTER > 1
  // The first block of the cluster joins what the others have.
  if (owns) parts[0][threadIdx.x] = all;
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (owns && rank == 0)
    for (int other = 1; other < CLUSTER; ++other) {
      u32 place;
      float its;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                   : "=r"(place)
                   : "r"((u32)__cvta_generic_to_shared(&parts[0][threadIdx.x])), "r"(other));
      asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(its) : "r"(place) : "memory");
      all = join(all, its);
    }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  if (owns && rank == 0) p.y[outer * p.inner + first + threadIdx.x] = of_f32<TY>(given(all, p.length));
#endif
}
