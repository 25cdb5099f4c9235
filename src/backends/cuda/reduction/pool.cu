// SPDX-License-Identifier: Apache-2.0
// Max and average pooling over two spatial axes. Behind larger.cuh. ELEMENT: type of input and output (u8, and e4m3 by
// its numbers, for the maximum only); FLOAT8: it is e4m3; MAX; VEC channels a thread (1 for any strides); INCLUDE_PAD:
// the average counts padding.
typedef ELEMENT T;
#include "pool_params.h"
typedef tenon::cuda::PoolParams Params;
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};

// Pairs of f16 and fours of bytes are compared as they are. Of the bytes in each half of a word the upper decide the
// larger half: a second word holds the lower ones.
constexpr bool WORDS = MAX && !FLOAT8 && sizeof(T) < 4 && VEC * sizeof(T) >= 4;
constexpr int COUNT = (VEC * sizeof(T) + 3) / 4, HALVES = sizeof(T) == 1 ? 2 : 1;
template <class V>
constexpr u32 MINUS_INFINITY = 0xfc00fc00u;
template <>
constexpr u32 MINUS_INFINITY<bf16> = 0xff80ff80u;
constexpr u32 LOWEST = sizeof(T) == 1 ? 0 : MINUS_INFINITY<T>;
__device__ __forceinline__ void clear(u32 (&words)[HALVES][COUNT]) {
#pragma unroll
  for (int e = 0; e < COUNT; ++e)
#pragma unroll
    for (int k = 0; k < HALVES; ++k) words[k][e] = LOWEST;
}
__device__ __forceinline__ u32 word_of(const u32 (&words)[HALVES][COUNT], int e) {
  return HALVES == 1 ? words[0][e] : (words[0][e] & 0xff00ff00u) | (words[HALVES - 1][e] >> 8 & 0x00ff00ffu);
}
__device__ __forceinline__ void take(u32 (&words)[HALVES][COUNT], const Vec& v) {
#pragma unroll
  for (int e = 0; e < COUNT; ++e) {
    const u32 word = ((const u32*)&v)[e];
    words[0][e] = larger(words[0][e], word);
    if (HALVES > 1) words[HALVES - 1][e] = larger(words[HALVES - 1][e], word << 8);
  }
}

extern "C" __global__ void __launch_bounds__(256) pool(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int groups = p.channels / VEC, c = i % groups * VEC, q = i / groups % p.out_w,
            r = i / groups / p.out_w % p.out_h, n = i / groups / p.out_w / p.out_h;
  u32 words[HALVES][COUNT];
  clear(words);
  float best[VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) best[e] = MAX ? -__int_as_float(0x7f800000) : 0.f;
  const int top = r * p.stride_h - p.pad_top, left = q * p.stride_w - p.pad_left;
  int taps = 0;
#pragma unroll(KH* KW <= 49 ? KH : 1)
  for (int kr = 0; kr < KH; ++kr) {
    const int h = top + kr * p.dilation_h;
#pragma unroll(KH* KW <= 49 ? KW : 1)
    for (int ks = 0; ks < KW; ++ks) {
      const int w = left + ks * p.dilation_w;
      if (!MAX && INCLUDE_PAD) taps += h < p.in_h + p.pad_bottom && w < p.in_w + p.pad_right;
      const bool inside = (u32)h < (u32)p.in_h && (u32)w < (u32)p.in_w;
      if (!INCLUDE_PAD) taps += inside;
      Vec v;
      if (inside) v = *(const Vec*)(p.x + n * p.xs[0] + h * p.xs[1] + w * p.xs[2] + c * p.xs[3]);
      if (WORDS) {
        if (inside) take(words, v);
        continue;
      }
#pragma unroll
      for (int e = 0; e < VEC; ++e) {
        const float f = inside ? f32_of(v.e[e]) : MAX ? -__int_as_float(0x7f800000) : 0.f;
        best[e] = MAX ? (f > best[e] || f != f ? f : best[e]) : best[e] + f;
      }
    }
  }
  Vec out;
#pragma unroll
  for (int e = 0; WORDS && e < COUNT; ++e) ((u32*)&out)[e] = word_of(words, e);
#pragma unroll
  for (int e = 0; !WORDS && e < VEC; ++e)
    out.e[e] = of_f32<T>(MAX ? (sizeof(T) == 1 && !FLOAT8 ? fmaxf(best[e], 0.f) : best[e]) : best[e] / taps);
  *(Vec*)(p.y + n * p.ys[0] + r * p.ys[1] + q * p.ys[2] + c * p.ys[3]) = out;
}

#ifdef LOWEST_NUMBER
// The largest, and where it lies: the first of equals, or the first that is no number.
extern "C" __global__ void __launch_bounds__(256)
    pool_indices(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int c = i % p.channels, q = i / p.channels % p.out_w, r = i / p.channels / p.out_w % p.out_h,
            n = i / p.channels / p.out_w / p.out_h;
  float best = LOWEST_NUMBER;
  i64 at = -1;
  for (int kr = 0; kr < KH; ++kr)
    for (int ks = 0; ks < KW; ++ks) {
      const int h = r * p.stride_h - p.pad_top + kr * p.dilation_h, w = q * p.stride_w - p.pad_left + ks * p.dilation_w;
      if ((u32)h >= (u32)p.in_h || (u32)w >= (u32)p.in_w) continue;
      const float f = f32_of(p.x[n * p.xs[0] + h * p.xs[1] + w * p.xs[2] + c * p.xs[3]]);
      if (at < 0 || (best == best && !(f <= best))) best = f, at = p.by_columns ? w * p.in_h + h : h * p.in_w + w;
    }
  p.y[n * p.ys[0] + r * p.ys[1] + q * p.ys[2] + c * p.ys[3]] = of_f32<T>(best);
  if (at >= 0) at += ((i64)n * p.channels + c) * p.in_h * p.in_w;
  p.at[n * p.is[0] + r * p.is[1] + q * p.is[2] + c * p.is[3]] = at;
}
#endif

#ifdef TW
// Maxima of windows that begin and end inside or at a border: there the nearest pixel stands for one outside. A thread
// makes TW neighbours; SW is the stride between them.
extern "C" __global__ void __launch_bounds__(256)
    pool_strip(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int groups = p.channels / VEC, c = i % groups * VEC, strips = (p.out_w + TW - 1) / TW,
            q = i / groups % strips * TW, row = i / groups / strips, r = row % p.out_h, n = row / p.out_h;
  const int top = r * p.stride_h - p.pad_top, left = q * SW - p.pad_left;
  constexpr int IN = (TW - 1) * SW + KW;
  u32 best[IN][HALVES][COUNT];  // of each column
#pragma unroll
  for (int k = 0; k < IN; ++k) clear(best[k]);
  const T* image = p.x + n * p.xs[0] + c;
  i64 columns[IN];
#pragma unroll
  for (int k = 0; k < IN; ++k) columns[k] = min(max(left + k, 0), p.in_w - 1) * p.xs[2];
#pragma unroll
  for (int kr = 0; kr < KH; ++kr) {
    const T* from = image + min(max(top + kr, 0), p.in_h - 1) * p.xs[1];
    Vec v[IN];
#pragma unroll
    for (int k = 0; k < IN; ++k) v[k] = *(const Vec*)(from + columns[k]);
#pragma unroll
    for (int k = 0; k < IN; ++k) take(best[k], v[k]);
  }
#pragma unroll
  for (int t = 0; t < TW; ++t) {
    u32 words[HALVES][COUNT];
    clear(words);
#pragma unroll
    for (int k = 0; k < KW; ++k)
#pragma unroll
      for (int h = 0; h < HALVES; ++h)
#pragma unroll
        for (int e = 0; e < COUNT; ++e) words[h][e] = larger(words[h][e], best[t * SW + k][h][e]);
    Vec out;
#pragma unroll
    for (int e = 0; e < COUNT; ++e) ((u32*)&out)[e] = word_of(words, e);
    if (q + t < p.out_w) *(Vec*)(p.y + n * p.ys[0] + r * p.ys[1] + (q + t) * p.ys[2] + c) = out;
  }
}
#endif
