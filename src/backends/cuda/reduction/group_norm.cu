// SPDX-License-Identifier: Apache-2.0
// (x - mean) / deviation, times a scale and plus a bias, over groups of channels of each image of a dense tensor, then
// the activation ACT. A thread holds EACH times VEC neighbours. ELEMENT: type; LAST 1: channels last; SHARED 1: a scale
// for each group, not for each channel.
// COLUMNS 0: a line is a group, which all THREADS of a block share (LX 1); VEC neighbours lie in one channel or, with
// channels last, in one group. COLUMNS 1: channels last, and groups of GROUP channels, a power of two up to LX times
// VEC: a line is LX times VEC channels, LX a power of two up to 32, and threads of the same channels stand LX apart.
// SPLIT 0: a block takes a whole line. SPLIT 1: blocks leave the mean of their part of a line and the squares around
// it; a second launch joins the parts (Chan, Golub and LeVeque 1979) and makes the results. JOINED 1: of many parts a
// launch between the two joins them once, not each block again. EARLY 1: scale and bias come from no kernel before this
// one, and are loaded before that has ended.
typedef ELEMENT T;
#include "group_norm_params.h"
typedef tenon::cuda::GroupNormParams Params;
template <class E> struct __align__(VEC * sizeof(E) < 16 ? VEC * sizeof(E) : 16) Vec {
  E e[VEC];
};
constexpr int WARPS = THREADS / 32, SUMS = COLUMNS ? VEC : 1;  // SUMS: statistics of a thread
constexpr int ROWS = THREADS / LX, UNITS = ROWS * EACH, PER_UNIT = COLUMNS ? 1 : VEC;

// The sums over the threads of the same channels or group, for each of them. Each call has its own `parts`.
__device__ __forceinline__ void total(float (&v)[SUMS], float (&parts)[WARPS][LX][SUMS]) {
  const int column = threadIdx.x % LX, lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < SUMS; ++k) {
#pragma unroll
    for (int step = 16; step >= LX; step /= 2) v[k] += __shfl_xor_sync(~0u, v[k], step);
    if (lane == column) parts[threadIdx.x / 32][column][k] = v[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SUMS; ++k) {
    v[k] = 0.f;
    if (COLUMNS) {
#pragma unroll
      for (int w = 0; w < WARPS; ++w) v[k] += parts[w][column][k];
    } else {
      if (lane < WARPS) v[k] = parts[lane][0][k];
#pragma unroll
      for (int step = 16; step; step /= 2) v[k] += __shfl_xor_sync(~0u, v[k], step);
    }
  }
}

// What a thread of this block works on.
struct Block {
  int line, unit, column;  // unit: the thread's first; column: its first channel, with COLUMNS
  bool alive;
  __device__ __forceinline__ Block(const Params& p) {
    line = blockIdx.y % p.lines;
    unit = blockIdx.x * UNITS + threadIdx.x / LX;
    column = (line * LX + threadIdx.x % LX) * VEC;
    alive = !COLUMNS || column < p.channels;
  }
  __device__ __forceinline__ bool has(const Params& p, int i) const {
    return alive && unit + i * ROWS < p.units;
  }
  // Where the i-th vector lies in the image, and its first channel.
  __device__ __forceinline__ u32 place(const Params& p, int i, u32& channel) const {
    const u32 at = unit + i * ROWS;
    if (COLUMNS) return channel = column, at * p.channels + column;
    const u32 first = line * p.group;
    if (!LAST) return channel = first + at / p.plane, (first * p.plane + at) * VEC;
    const u32 vectors = p.group / VEC;
    channel = first + at % vectors * VEC;
    return at / vectors * p.channels + channel;
  }
};
__device__ __forceinline__ i64 image_of(const Params& p) { return (i64)(blockIdx.y / p.lines) * p.image; }
// Numbers that a part adds to one of its sums.
__device__ __forceinline__ float size_of(const Params& p, int part) {
  return (float)(min(UNITS, p.units - part * UNITS) * PER_UNIT);
}
__device__ __forceinline__ Vec<float> of_channels(const Params& p, const float* list, u32 channel) {
  if (LAST && !SHARED) return *(const Vec<float>*)(list + channel);
  Vec<float> all;
  if (COLUMNS) {
#pragma unroll
    for (int e = 0; e < VEC; ++e) all.e[e] = list[(channel + e) / p.group];
    return all;
  }
  const float one = list[SHARED ? channel / p.group : channel];
#pragma unroll
  for (int e = 0; e < VEC; ++e) all.e[e] = one;
  return all;
}

// The vectors of a thread.
struct Values {
  Vec<T> v[EACH];
  __device__ __forceinline__ void load(const Params& p, const Block& block) {
    const T* x = p.x + image_of(p);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      u32 channel;
      v[i] = {};
      if (block.has(p, i)) v[i] = *(const Vec<T>*)(x + block.place(p, i, channel));
    }
  }
  // Means of a part, and the squares around them.
  __device__ __forceinline__ void measure(const Params& p, const Block& block, float (&mean)[SUMS],
                                          float (&squares)[SUMS]) const {
    __shared__ float parts[2][WARPS][LX][SUMS];
#pragma unroll
    for (int k = 0; k < SUMS; ++k) mean[k] = squares[k] = 0.f;
#pragma unroll
    for (int i = 0; i < EACH; ++i)
#pragma unroll
      for (int e = 0; e < VEC; ++e) mean[COLUMNS ? e : 0] += f32_of(v[i].e[e]);
    total(mean, parts[0]);
    const float share = 1.f / size_of(p, blockIdx.x);
#pragma unroll
    for (int k = 0; k < SUMS; ++k) mean[k] *= share;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      if (!block.has(p, i)) continue;
#pragma unroll
      for (int e = 0; e < VEC; ++e) {
        const float away = f32_of(v[i].e[e]) - mean[COLUMNS ? e : 0];
        squares[COLUMNS ? e : 0] = fmaf(away, away, squares[COLUMNS ? e : 0]);
      }
    }
    total(squares, parts[1]);
  }
};

// Of means and squares of channels, those of their group in each; `count`: numbers of a channel.
__device__ __forceinline__ float of_group(float (&v)[SUMS], int at) {
  constexpr int OWN = GROUP < SUMS ? GROUP : SUMS;
  float all = 0.f;
#pragma unroll
  for (int k = 0; k < OWN; ++k) all += v[at / OWN * OWN + k];
#pragma unroll
  for (int step = GROUP / OWN / 2; step; step /= 2) all += __shfl_xor_sync(~0u, all, step);
  return all;
}
__device__ __forceinline__ void join_channels(float (&mean)[SUMS], float (&squares)[SUMS], float count) {
  if (GROUP == 1) return;
  float around[SUMS], joined[SUMS];
#pragma unroll
  for (int k = 0; k < SUMS; ++k) joined[k] = of_group(mean, k) / GROUP;
#pragma unroll
  for (int k = 0; k < SUMS; ++k) around[k] = fmaf((mean[k] - joined[k]) * (mean[k] - joined[k]), count, squares[k]);
#pragma unroll
  for (int k = 0; k < SUMS; ++k) mean[k] = joined[k], squares[k] = of_group(around, k);
}

// Scales and biases of a thread's vectors.
struct Parameters {
  Vec<float> scale[EACH], bias[EACH];
  __device__ __forceinline__ void load(const Params& p, const Block& block) {
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      u32 channel;
      block.place(p, i, channel);
      scale[i] = bias[i] = {};
      if (!block.has(p, i)) continue;
      scale[i] = of_channels(p, p.scale, channel), bias[i] = of_channels(p, p.bias, channel);
    }
  }
};
__device__ __forceinline__ void store(const Params& p, const Block& block, const Values& values,
                                      const Parameters& parameters, const float (&mean)[SUMS],
                                      const float (&factor)[SUMS]) {
  T* y = p.y + image_of(p);
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    if (!block.has(p, i)) continue;
    u32 channel;
    const u32 at = block.place(p, i, channel);
    Vec<float> scale = parameters.scale[i], bias = parameters.bias[i];
    if (!EARLY) scale = of_channels(p, p.scale, channel), bias = of_channels(p, p.bias, channel);
    Vec<T> out;
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      const int k = COLUMNS ? e : 0;
      const float r = (f32_of(values.v[i].e[e]) - mean[k]) * factor[k] * scale.e[e] + bias.e[e];
      out.e[e] = of_f32<T>(activate<ACT, sizeof(T) == 2>(r, p.alpha, p.beta));
    }
    *(Vec<T>*)(y + at) = out;
  }
}

#if !SPLIT
extern "C" __global__ void __launch_bounds__(THREADS)
    group_norm(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const Block block(p);
  Parameters parameters;
  if (EARLY) parameters.load(p, block);
  wait_for_previous(breadcrumb);
  Values values;
  float mean[SUMS], factor[SUMS];
  values.load(p, block);
  values.measure(p, block, mean, factor);
  join_channels(mean, factor, size_of(p, 0));
#pragma unroll
  for (int k = 0; k < SUMS; ++k) factor[k] = rsqrtf(factor[k] / (size_of(p, 0) * GROUP) + p.epsilon);
  store(p, block, values, parameters, mean, factor);
}
#else
// The thread's k-th statistic of a part.
__device__ __forceinline__ float2& part_of(const Params& p, const Block& block, int part, int k) {
  const u32 image = blockIdx.y / p.lines;
  return COLUMNS ? p.parts[(i64)(image * p.most + part) * p.channels + block.column + k]
                 : p.parts[(i64)blockIdx.y * p.most + part];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    part_sums(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const Block block(p);
  Values values;
  float mean[SUMS], squares[SUMS];
  values.load(p, block);
  values.measure(p, block, mean, squares);
  if (threadIdx.x >= LX || !block.alive) return;
#pragma unroll
  for (int k = 0; k < SUMS; ++k) part_of(p, block, blockIdx.x, k) = make_float2(mean[k], squares[k]);
}

// The joined statistics of the thread's k-th channel or of its group.
__device__ __forceinline__ float2& joined_of(const Params& p, int column, int k) {
  const u32 image = blockIdx.y / p.lines;
  return COLUMNS ? p.joined[(i64)image * p.channels + column + k] : p.joined[blockIdx.y];
}
// The sums over all threads of the block, in each. Each call has its own `parts`.
__device__ __forceinline__ void total_of_block(float (&v)[SUMS], float (&parts)[WARPS][SUMS]) {
#pragma unroll
  for (int k = 0; k < SUMS; ++k) {
#pragma unroll
    for (int step = 16; step; step /= 2) v[k] += __shfl_xor_sync(~0u, v[k], step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][k] = v[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SUMS; ++k) {
    v[k] = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) v[k] += parts[w][k];
  }
}
// What every `step`-th part from `first` on adds to the means of a line, and to the squares around them.
__device__ __forceinline__ void add_means(const Params& p, const Block& block, int first, int step, int count,
                                          float (&mean)[SUMS]) {
  const float all = (float)p.units * PER_UNIT;
  for (int part = first; part < count; part += step)
#pragma unroll
    for (int k = 0; k < SUMS; ++k) mean[k] = fmaf(part_of(p, block, part, k).x, size_of(p, part) / all, mean[k]);
}
__device__ __forceinline__ void add_squares(const Params& p, const Block& block, int first, int step, int count,
                                            const float (&mean)[SUMS], float (&squares)[SUMS]) {
  for (int part = first; part < count; part += step)
#pragma unroll
    for (int k = 0; k < SUMS; ++k) {
      const float2 one = part_of(p, block, part, k);
      const float away = one.x - mean[k];
      squares[k] += fmaf(away * away, size_of(p, part), one.y);
    }
}
// A block for VEC channels, or for a group.
extern "C" __global__ void __launch_bounds__(THREADS)
    join_parts(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ float parts[2][WARPS][SUMS];
  wait_for_previous(breadcrumb);
  Block block(p);
  block.column = ((int)(blockIdx.y % p.lines) * LX + (int)blockIdx.x) * VEC;
  if (COLUMNS && block.column >= p.channels) return;
  float mean[SUMS] = {}, squares[SUMS] = {};
  add_means(p, block, threadIdx.x, THREADS, p.most, mean);
  total_of_block(mean, parts[0]);
  add_squares(p, block, threadIdx.x, THREADS, p.most, mean, squares);
  total_of_block(squares, parts[1]);
  if (threadIdx.x > 0) return;
#pragma unroll
  for (int k = 0; k < SUMS; ++k) joined_of(p, block.column, k) = make_float2(mean[k], squares[k]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    group_norm(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
#if !JOINED
  __shared__ float parts[2][WARPS][LX][SUMS];
#endif
  const Block block(p);
  Parameters parameters;
  if (EARLY) parameters.load(p, block);
  wait_for_previous(breadcrumb);
  Values values;
  values.load(p, block);
  float mean[SUMS] = {}, factor[SUMS] = {};
  const float all = (float)p.units * PER_UNIT;
#if JOINED
#pragma unroll
  for (int k = 0; k < SUMS; ++k) {
    const float2 one = block.alive ? joined_of(p, block.column, k) : make_float2(0.f, 0.f);
    mean[k] = one.x, factor[k] = one.y;
  }
#else
  const int first = threadIdx.x / LX, count = block.alive ? p.most : 0;
  add_means(p, block, first, ROWS, count, mean);
  total(mean, parts[0]);
  add_squares(p, block, first, ROWS, count, mean, factor);
  total(factor, parts[1]);
#endif
  join_channels(mean, factor, all);
#pragma unroll
  for (int k = 0; k < SUMS; ++k) factor[k] = rsqrtf(factor[k] / (all * GROUP) + p.epsilon);
  store(p, block, values, parameters, mean, factor);
}
#endif
