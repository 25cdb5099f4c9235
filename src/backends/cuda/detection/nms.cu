// SPDX-License-Identifier: Apache-2.0
// Greedy NMS of boxes: a block for each batch entry and class goes through its boxes in falling score, THREADS
// at a time, and keeps those that overlap with none kept before. Then the kept ones are put one after the other. Behind
// rank.cuh. Macros: CENTRED 1: boxes are centre and size, else two corners; LIMITED 1: there is a least score; MOST
// boxes of a class at most.
#include "nms_params.h"
typedef tenon::cuda::NmsParams Params;
struct Box {
  float top, left, bottom, right;
  __device__ __forceinline__ float area() const { return __fmul_rn(__fsub_rn(bottom, top), __fsub_rn(right, left)); }
};

__device__ __forceinline__ Box read_box(const float4* from) {
  const float4 v = *from;
  if (CENTRED) {
    const float h = v.w * 0.5f, w = v.z * 0.5f;
    return {__fsub_rn(v.y, h), __fsub_rn(v.x, w), __fadd_rn(v.y, h), __fadd_rn(v.x, w)};
  }
  return {v.z < v.x ? v.z : v.x, v.w < v.y ? v.w : v.y, v.x < v.z ? v.z : v.x, v.y < v.w ? v.w : v.y};
}
// Intersection over union; 0 where either box is empty.
__device__ __forceinline__ float overlap_of(const Box& a, const Box& b) {
  const float height = __fsub_rn(b.bottom < a.bottom ? b.bottom : a.bottom, a.top < b.top ? b.top : a.top),
              width = __fsub_rn(b.right < a.right ? b.right : a.right, a.left < b.left ? b.left : a.left);
  if (height <= 0.f || width <= 0.f || a.area() <= 0.f || b.area() <= 0.f) return 0.f;
  const float both = __fmul_rn(height, width);
  return __fdiv_rn(both, __fsub_rn(__fadd_rn(a.area(), b.area()), both));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    nms(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ Ranking ranking;
  __shared__ Box kept[MOST];
  __shared__ int first_alive[THREADS / 32];
  wait_for_previous(breadcrumb);
  const int list = blockIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const float4* boxes = p.boxes + (i64)(list / p.classes) * p.count;
  const float* scores = p.scores + (i64)list * p.count;
  const auto key = [&](int i) {
    const float score = scores[i];
    return (LIMITED ? score > p.limit : score == score) ? key_of(order_of(score), i) : 0;
  };
  int count = 0;
  u64 below = ~0ull;
  while (count < MOST) {
    const int ranked = rank_next(key, p.count, below, RANKED, ranking);
    for (int first = 0; first < ranked && count < MOST; first += THREADS) {
      const int own = first + threadIdx.x;
      bool alive = own < ranked;
      Box box = {};
      if (alive) box = read_box(boxes + place_of(ranking.keys[own]));
      for (int at = 0; alive && at < count; ++at) alive = !(overlap_of(box, kept[at]) > p.overlap);
      // The first that is left is kept, and may end others.
      while (true) {
        const u32 vote = __ballot_sync(ALL_LANES, alive);
        if (lane == 0) first_alive[warp] = vote ? warp * 32 + __ffs(vote) - 1 : THREADS;
        __syncthreads();
        int winner = THREADS;
        for (int at = 0; at < THREADS / 32; ++at) winner = min(winner, first_alive[at]);
        if (winner == THREADS || count == MOST) break;
        if (threadIdx.x == winner) {
          kept[count] = box, alive = false;
          p.kept[(i64)list * MOST + count] = place_of(ranking.keys[own]);
        }
        __syncthreads();
        alive = alive && !(overlap_of(box, kept[count]) > p.overlap);
        ++count;
      }
      __syncthreads();
    }
    if (ranked < RANKED) break;
    below = ranking.keys[RANKED - 1];
  }
  if (threadIdx.x == 0) p.counts[list] = count;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    put_together(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  __shared__ int sums[2];  // of the lists before, of all
  if (threadIdx.x < 2) sums[threadIdx.x] = 0;
  __syncthreads();
  const int list = blockIdx.x;
  int before = 0, all = 0;
  for (int at = threadIdx.x; at < p.lists; at += THREADS) {
    all += p.counts[at];
    if (at < list) before += p.counts[at];
  }
  if (before) atomicAdd(&sums[0], before);
  if (all) atomicAdd(&sums[1], all);
  __syncthreads();
  for (int at = threadIdx.x; at < p.counts[list]; at += THREADS) {
    i64* row = p.rows + (sums[0] + at) * 3;
    row[0] = list / p.classes, row[1] = list % p.classes, row[2] = p.kept[(i64)list * MOST + at];
  }
  for (i64 at = (i64)sums[1] * 3 + (i64)list * THREADS + threadIdx.x; at < p.room * 3; at += (i64)p.lists * THREADS)
    p.rows[at] = 0;
  if (list == 0 && threadIdx.x == 0) *p.total = sums[1];
}
