// SPDX-License-Identifier: Apache-2.0
// What each tap of a deformable convolution reads, channels last: a pixel between four at an offset of its own, times
// its mask. ELEMENT: type of image and result; PLACE: of offsets and masks; MASKED 1: there are masks; KH, KW: taps;
// VEC channels a thread, of one group of offsets.
typedef ELEMENT T;
#include "deform_windows_params.h"
typedef tenon::cuda::DeformWindowsParams Params;
struct __align__(VEC * sizeof(T)) Vec {
  T e[VEC];
};

extern "C" __global__ void __launch_bounds__(256)
    deform_windows(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  constexpr int TAPS = KH * KW;
  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
  if (i >= p.count) return;
  const int c = i % p.channels, tap = i / p.channels % TAPS;
  const i64 place = i / p.channels / TAPS, image = place / p.out_w / p.out_h;
  const int column = place % p.out_w, row = place / p.out_w % p.out_h;
  const i64 entry = (place * (p.channels / p.group) + c / p.group) * TAPS + tap;
  const float y = row * p.stride_h - p.top + tap / KW * p.dilation_h + f32_of(p.offsets[2 * entry]),
              x = column * p.stride_w - p.left + tap % KW * p.dilation_w + f32_of(p.offsets[2 * entry + 1]);
  float sum[VEC] = {};
  if (y > -1.f && y < p.in_h && x > -1.f && x < p.in_w) {
    const float top = floorf(y), left = floorf(x), down = y - top, across = x - left, scale =
        MASKED ? f32_of(p.mask[entry]) : 1.f;
    const auto add = [&](int h, int w, float weight) {
      if ((u32)h >= (u32)p.in_h || (u32)w >= (u32)p.in_w) return;
      const Vec v = *(const Vec*)(p.x + (((image * p.in_h + h) * p.in_w + w) * p.channels + c) * VEC);
#pragma unroll
      for (int e = 0; e < VEC; ++e) sum[e] = fmaf(weight * scale, f32_of(v.e[e]), sum[e]);
    };
    const int h = top, w = left;
    add(h, w, (1.f - down) * (1.f - across)), add(h, w + 1, (1.f - down) * across);
    add(h + 1, w, down * (1.f - across)), add(h + 1, w + 1, down * across);
  }
  Vec out;
#pragma unroll
  for (int e = 0; e < VEC; ++e) out.e[e] = of_f32<T>(sum[e]);
  *(Vec*)(p.y + i * VEC) = out;
}
