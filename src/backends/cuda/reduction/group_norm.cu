// SPDX-License-Identifier: Apache-2.0
// (x - mean) / deviation, times a scale and plus a bias, over groups of channels of each image of a dense tensor, in
// two launches: each block leaves the mean of its part of a group and the squares around it, then all blocks join the
// parts of their group (Chan, Golub and LeVeque 1979) and make its results. ELEMENT: type; LAST 1: channels last.
typedef ELEMENT T;
#include "group_norm_params.h"
typedef tenon::cuda::GroupNormParams Params;

// Where element i of the block's group lies, and its channel.
__device__ __forceinline__ i64 place_of(const Params& p, i64 i, int& channel) {
  const i64 n = blockIdx.y / p.groups, g = blockIdx.y % p.groups;
  if (LAST) {
    channel = g * p.group + i % p.group;
    return (n * p.plane + i / p.group) * p.channels + channel;
  }
  channel = g * p.group + i / p.plane;
  return (n * p.groups + g) * p.count + i;
}
// Elements [begin, end) of this block's part.
__device__ __forceinline__ void bounds(const Params& p, i64& begin, i64& end) {
  const i64 each = (p.count + p.most - 1) / p.most;
  begin = blockIdx.x * each;
  end = begin + each < p.count ? begin + each : p.count;
}
__device__ __forceinline__ float sum_of_block(float v) {
  __shared__ float sums[8];
#pragma unroll
  for (int step = 16; step; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = v;
  __syncthreads();
  float all = 0.f;
#pragma unroll
  for (int k = 0; k < 8; ++k) all += sums[k];
  return all;
}

extern "C" __global__ void __launch_bounds__(256)
    part_sums(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  i64 begin, end;
  int channel;
  bounds(p, begin, end);
  float sum = 0.f, squares = 0.f;
  for (i64 i = begin + threadIdx.x; i < end; i += 256) sum += f32_of(p.x[place_of(p, i, channel)]);
  const float mean = end > begin ? sum_of_block(sum) / (end - begin) : 0.f;
  for (i64 i = begin + threadIdx.x; i < end; i += 256) {
    const float away = f32_of(p.x[place_of(p, i, channel)]) - mean;
    squares = fmaf(away, away, squares);
  }
  squares = sum_of_block(squares);
  if (threadIdx.x == 0) p.parts[blockIdx.y * p.most + blockIdx.x] = make_float2(mean, squares);
}

extern "C" __global__ void __launch_bounds__(256)
    group_norm(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  float mean = 0.f, squares = 0.f, seen = 0.f;
  const i64 each = (p.count + p.most - 1) / p.most;
  for (int part = 0; part < p.most; ++part) {
    const i64 first = part * each, size = first + each < p.count ? each : p.count - first;
    if (size <= 0) break;
    const float2 one = p.parts[blockIdx.y * p.most + part];
    const float all = seen + size, away = one.x - mean;
    mean += away * (size / all);
    squares += one.y + away * away * (seen * (size / all));
    seen = all;
  }
  const float factor = rsqrtf(squares / p.count + p.epsilon);
  i64 begin, end;
  bounds(p, begin, end);
  for (i64 i = begin + threadIdx.x; i < end; i += 256) {
    int channel;
    const i64 at = place_of(p, i, channel);
    const int own = channel / p.share;
    p.y[at] = of_f32<T>((f32_of(p.x[at]) - mean) * factor * p.scale[own] + p.bias[own]);
  }
}
