// SPDX-License-Identifier: Apache-2.0
// Pixels of an image at the places of a grid, whose numbers run from -1 to 1, columns first. ELEMENT, PLACE: types of
// image and grid; NEAREST 1: the nearest pixel, else linear; PADDING 0: zeros outside, 1: the nearest pixel inside,
// 2: mirrored at the edges; CORNERS 1: -1 and 1 are the centres of the outermost pixels, else their outer edges.
typedef ELEMENT T;
#include "grid_sample_params.h"
typedef tenon::cuda::GridSampleParams Params;

// Folds a coordinate into [low, low + range].
__device__ __forceinline__ float reflected(float x, float low, float range) {
  if (range <= 0.f) return low;
  const float away = fabsf(x - low), turns = floorf(away / range), rest = away - turns * range;
  return fmodf(turns, 2.f) == 0.f ? low + rest : low + range - rest;
}
__device__ __forceinline__ float placed(float x, int size) {
  const float last = size - 1;
  if (PADDING == 1) return fminf(fmaxf(x, 0.f), last);
  if (PADDING == 2) return CORNERS ? reflected(x, 0.f, last) : fminf(fmaxf(reflected(x, -0.5f, size), 0.f), last);
  return x;
}
__device__ __forceinline__ float pixel_of(float x, int size) {
  x = CORNERS ? (x + 1.f) / 2.f * (size - 1) : ((x + 1.f) * size - 1.f) / 2.f;
  if (!(fabsf(x) < 1e9f)) x = -1e9f;
  return placed(x, size);
}

extern "C" __global__ void __launch_bounds__(256)
    grid_sample(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int w = i % p.out_w, h = i / p.out_w % p.out_h, c = i / p.out_w / p.out_h % p.channels,
            n = i / p.out_w / p.out_h / p.channels;
  const PLACE* place = p.grid + n * p.gs[0] + h * p.gs[1] + w * p.gs[2];
  const float column = pixel_of(f32_of(place[0]), p.in_w), row = pixel_of(f32_of(place[p.gs[3]]), p.in_h);
  const T* image = p.x + n * p.xs[0] + c * p.xs[1];
  const auto pixel = [&](float r, float k) {
    return r >= 0.f && r <= p.in_h - 1 && k >= 0.f && k <= p.in_w - 1
               ? f32_of(image[(int)r * p.xs[2] + (int)k * p.xs[3]])
               : 0.f;
  };
  float result;
  if (NEAREST) {
    result = pixel(placed(rintf(row), p.in_h), placed(rintf(column), p.in_w));
  } else {
    const float top = floorf(row), left = floorf(column), down = row - top, right = column - left;
    result = (1.f - down) * ((1.f - right) * pixel(top, left) + right * pixel(top, left + 1.f)) +
             down * ((1.f - right) * pixel(top + 1.f, left) + right * pixel(top + 1.f, left + 1.f));
  }
  p.y[n * p.ys[0] + c * p.ys[1] + h * p.ys[2] + w * p.ys[3]] = of_f32<T>(result);
}
