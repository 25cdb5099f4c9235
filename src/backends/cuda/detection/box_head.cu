// SPDX-License-Identifier: Apache-2.0
// What follows the last convolutions of a detector without anchors: see src/ops/box_head.cpp. A block takes TILE places
// of one scale of an image. Macros: ELEMENT, SCALES, BINS, CLASSES, BV, KV (logits of distances and of classes a load).
typedef ELEMENT T;
constexpr int TILE = 64, WORD = 4 / sizeof(T), WORDS = (CLASSES + WORD - 1) / WORD, PITCH = (WORDS | 1) * WORD;

struct Params {
  const T *boxes[SCALES], *scores[SCALES];
  const float *bins, *low, *high, *scale;
  float* y;
  int places[SCALES], begin[SCALES], tile[SCALES];  // begin: its first place of all; tile: likewise
  int all, tiles;
};
struct __align__(BV * sizeof(T)) Boxes {
  T e[BV];
};
struct __align__(KV * sizeof(T)) Scores {
  T e[KV];
};

extern "C" __global__ void __launch_bounds__(256)
    box_head(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  __shared__ T classes[TILE * PITCH];
  __shared__ float distances[4][TILE];
  const int t = threadIdx.x, n = blockIdx.x / p.tiles, tile = blockIdx.x % p.tiles;
  int s = 0;
#pragma unroll
  for (int k = 1; k < SCALES; ++k) s = tile >= p.tile[k] ? k : s;
  const int first = (tile - p.tile[s]) * TILE, count = min(TILE, p.places[s] - first);
  const i64 row = (i64)n * p.places[s] + first;
  wait_for_previous(breadcrumb);

  const T* scores = p.scores[s] + row * CLASSES;
  for (int i = t * KV; i < count * CLASSES; i += 256 * KV) {
    const Scores v = *(const Scores*)(scores + i);
#pragma unroll
    for (int e = 0; e < KV; ++e) classes[i / CLASSES * PITCH + i % CLASSES + e] = v.e[e];
  }
  if (t < count * 4) {
    const T* logits = p.boxes[s] + (row * 4 + t) * BINS;
    float v[BINS], top = -__int_as_float(0x7f800000), sum = 0.f, mean = 0.f;
#pragma unroll
    for (int k = 0; k < BINS; k += BV) {
      const Boxes in = *(const Boxes*)(logits + k);
#pragma unroll
      for (int e = 0; e < BV; ++e) v[k + e] = f32_of(in.e[e]), top = fmaxf(top, v[k + e]);
    }
#pragma unroll
    for (int k = 0; k < BINS; ++k) {
      const float weight = __expf(v[k] - top);
      sum += weight, mean = fmaf(weight, p.bins[k], mean);
    }
    distances[t & 3][t >> 2] = mean / sum;
  }
  __syncthreads();

  const int place = t % TILE;
  if (place >= count) return;
  const i64 a = p.begin[s] + first + place;
  float* to = p.y + (i64)n * (4 + CLASSES) * p.all + a;
  {
    const int line = t / TILE, axis = line & 1;
    const float from = p.low[2 * a + axis] - distances[axis][place],
                end = p.high[2 * a + axis] + distances[axis + 2][place];
    to[(i64)line * p.all] = (line < 2 ? (from + end) * 0.5f : end - from) * p.scale[a];
  }
#pragma unroll 4
  for (int k = t / TILE; k < CLASSES; k += 256 / TILE)
    to[(i64)(4 + k) * p.all] = __fdividef(1.f, 1.f + __expf(-f32_of(classes[place * PITCH + k])));
}
