// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of bytes, channels last: a thread makes TW neighbouring pixels of VEC (4 or 8) channels. Behind
// int8.cuh. Macros: TY type of the result, VEC, TW, KH, KW, SH, SW, DH, DW (kernel, strides, dilations). Weights:
// [tap][channel]. Taps outside read as the zero point.
#include "int8_depthwise_params.h"
typedef tenon::cuda::Int8DepthwiseParams Params;
struct __align__(VEC) Bytes {
  u32 word[VEC / 4];
};

extern "C" __global__ void __launch_bounds__(128)
    int8_depthwise(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= p.count) return;
  const int groups = p.channels / VEC, c = i % groups * VEC, strip = i / groups % p.strips,
            r = i / groups / p.strips % p.out_h, n = i / groups / p.strips / p.out_h, q0 = strip * TW;
  constexpr int IN = (TW - 1) * SW + (KW - 1) * DW + 1;
  int sum[TW][VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
    const int z = p.lists.zero_sums[c + e];
#pragma unroll
    for (int t = 0; t < TW; ++t) sum[t][e] = z;
  }
  // Weights come from no kernel before this one.
  constexpr bool EARLY = KH * KW <= 25;
  Bytes early[EARLY ? KH * KW : 1];
  if (EARLY)
#pragma unroll
    for (int t = 0; t < KH * KW; ++t) early[EARLY ? t : 0] = *(const Bytes*)(p.w + t * p.channels + c);
  wait_for_previous(breadcrumb);
  const u8* image = p.x + n * p.xs[0] + c;
  const int w0 = q0 * SW - p.pad_left;
#pragma unroll
  for (int kr = 0; kr < KH; ++kr) {
    const int h = r * SH - p.pad_top + kr * DH;
    Bytes in[IN];
#pragma unroll
    for (int k = 0; k < IN; ++k) {
      const int w = w0 + k;
#pragma unroll
      for (int e = 0; e < VEC / 4; ++e) in[k].word[e] = p.fill;
      if ((u32)h < (u32)p.in_h && (u32)w < (u32)p.in_w) in[k] = *(const Bytes*)(image + h * p.xs[1] + w * p.xs[2]);
    }
#pragma unroll
    for (int ks = 0; ks < KW; ++ks) {
      const Bytes weight =
          EARLY ? early[EARLY ? kr * KW + ks : 0] : *(const Bytes*)(p.w + (kr * KW + ks) * p.channels + c);
#pragma unroll
      for (int e = 0; e < VEC; ++e) {
        const int by = (int)(i8)(weight.word[e / 4] >> (8 * (e % 4)));
#pragma unroll
        for (int t = 0; t < TW; ++t)
          sum[t][e] += (int)(in[t * SW + ks * DW].word[e / 4] >> (8 * (e % 4)) & 255) * by;
      }
    }
  }
#pragma unroll
  for (int t = 0; t < TW; ++t) {
    if (q0 + t >= p.out_w) break;
    Bytes other = {};
    if (RESIDUAL) other = *(const Bytes*)(p.residual + n * p.rs[0] + r * p.rs[1] + (q0 + t) * p.rs[2] + c);
    float v[VEC];
#pragma unroll
    for (int e = 0; e < VEC; ++e)
      v[e] = real_of<sizeof(TY) < 4, sizeof(TY) == 1>(
          sum[t][e], p.lists.scale[c + e], p.lists.bias[c + e],
          RESIDUAL ? residual_of(other.word[e / 4], e % 4, r_scale_of(p.lists.r_scales, c + e, p.finish), p.finish)
                   : Added{},
          p.finish);
    const auto steps = [&](int e) {
      return steps_of(v[e], inverse_of(p.lists.inverses, c + e, p.finish), p.finish);
    };
    TY* to = p.y + n * p.ys[0] + r * p.ys[1] + (q0 + t) * p.ys[2] + c;
#pragma unroll
    for (int e = 0; e < VEC; e += 4) {
      if (sizeof(TY) == 1)
        *(u32*)(to + e) = pack_bytes(steps(e), steps(e + 1), steps(e + 2), steps(e + 3));
      else
#pragma unroll
        for (int k = 0; k < 4; ++k) to[e + k] = of_f32<TY>(v[e + k]);
    }
  }
}
