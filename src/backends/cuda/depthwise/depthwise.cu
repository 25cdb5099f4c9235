// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution behind depthwise.cuh: a thread makes TW neighbouring pixels of VEC channels. Macros: ELEMENT,
// TY types, VEC, TW, KH, KW, SH, SW, DH, DW (kernel, strides, dilations), ACT, RESIDUAL.
struct __align__(VEC * sizeof(ELEMENT)) VecX {
  ELEMENT e[VEC];
};
struct __align__(VEC * sizeof(TY)) VecY {
  TY e[VEC];
};

extern "C" __global__ void __launch_bounds__(128)
    depthwise(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= p.count) return;
  const int groups = p.channels / VEC, c = i % groups * VEC, strip = i / groups % p.strips,
            r = i / groups / p.strips % p.out_h, n = i / groups / p.strips / p.out_h, q0 = strip * TW;
  constexpr int IN = (TW - 1) * SW + (KW - 1) * DW + 1;
  float sum[TW][VEC];
#pragma unroll
  for (int e = 0; e < VEC; ++e) {
    const float b = p.bias[c + e];
#pragma unroll
    for (int t = 0; t < TW; ++t) sum[t][e] = b;
  }
  // Weights come from no kernel before this one.
  constexpr bool EARLY = KH * KW * VEC <= 40;
  float early[EARLY ? KH * KW : 1][VEC];
  if (EARLY)
#pragma unroll
    for (int t = 0; t < KH * KW; ++t)
#pragma unroll
      for (int e = 0; e < VEC; ++e) early[EARLY ? t : 0][e] = p.w[t * p.channels + c + e];
  wait_for_previous(breadcrumb);
  const ELEMENT* image = p.x + n * p.xs[0] + c;
  const int w0 = q0 * SW - p.pad_left;
#pragma unroll
  for (int kr = 0; kr < KH; ++kr) {
    const int h = r * SH - p.pad_top + kr * DH;
    if ((u32)h >= (u32)p.in_h) continue;
    float in[IN][VEC];
#pragma unroll
    for (int k = 0; k < IN; ++k) {
      const int w = w0 + k;
      VecX v = {};
      if ((u32)w < (u32)p.in_w) v = *(const VecX*)(image + h * p.xs[1] + w * p.xs[2]);
#pragma unroll
      for (int e = 0; e < VEC; ++e) in[k][e] = f32_of(v.e[e]);
    }
#pragma unroll
    for (int ks = 0; ks < KW; ++ks) {
      float weight[VEC];
#pragma unroll
      for (int e = 0; e < VEC; ++e)
        weight[e] = EARLY ? early[EARLY ? kr * KW + ks : 0][e] : p.w[(kr * KW + ks) * p.channels + c + e];
#pragma unroll
      for (int t = 0; t < TW; ++t)
#pragma unroll
        for (int e = 0; e < VEC; ++e) sum[t][e] = fmaf(in[t * SW + ks * DW][e], weight[e], sum[t][e]);
    }
  }
#pragma unroll
  for (int t = 0; t < TW; ++t) {
    if (q0 + t >= p.out_w) break;
    VecY out, other = {};
    if (RESIDUAL) other = *(const VecY*)(p.residual + n * p.rs[0] + r * p.rs[1] + (q0 + t) * p.rs[2] + c);
#pragma unroll
    for (int e = 0; e < VEC; ++e) {
      float v = sum[t][e];
      if (RESIDUAL == 1) v += f32_of(other.e[e]);
      v = activate<ACT, sizeof(TY) == 2>(v, p.alpha, p.beta);
      if (RESIDUAL == 2) v += f32_of(other.e[e]);
      out.e[e] = of_f32<TY>(v);
    }
    *(VecY*)(p.y + n * p.ys[0] + r * p.ys[1] + (q0 + t) * p.ys[2] + c) = out;
  }
}
