// SPDX-License-Identifier: Apache-2.0
// Elements, products and eight results at a time of conv_mma.cu, by its macro DT.
#pragma once
#if DT == 1
typedef float16 X;
#elif DT == 3
typedef u8 X;
#else
typedef float X;
#endif
#if DT == 3
typedef u8 Other;
#else
typedef float Sum;
typedef TY Other;
typedef float Added;
struct Finish {
  float of_bytes[3], alpha, beta;
  int of_bytes_too;
};
struct Lists {
  const float* bias;
  const void* of_bytes[4];
};
#endif

#if DT == 2 || DT == 4
#define DIVIDED (DT == 4)
#include "tf32.cuh"
#else
#define DIVIDED 0
// Four words of an operand; the rest is of f32 alone.
struct Four {
  u32 whole[4], rest[4];
  __device__ __forceinline__ void divide() {}
};
#endif
#if DT == 3 && FP8
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#elif DT == 3
__device__ __forceinline__ void multiply(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#elif DT == 1
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." FLOAT16_NAME "." FLOAT16_NAME
               ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

// Of results, how many are there: `left`, where stores are not of all eight.
__device__ __forceinline__ bool is_there(int e, int left) { return VECTOR || e < left; }

// ---- eight neighbouring channels of one pixel
__device__ __forceinline__ void load8(float (&v)[8], const float16* from) {
  const uint4 u = *(const uint4*)from;
  const u32 w[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = half_of(w[i / 2], i % 2);
}
__device__ __forceinline__ void load8(float (&v)[8], const float* from) {
  *(float4*)&v[0] = ((const float4*)from)[0], *(float4*)&v[4] = ((const float4*)from)[1];
}
__device__ __forceinline__ void store8(float16* to, const float (&v)[8]) {
  *(uint4*)to =
      make_uint4(pack_halves(v[0], v[1]), pack_halves(v[2], v[3]), pack_halves(v[4], v[5]), pack_halves(v[6], v[7]));
}
__device__ __forceinline__ void store8(float* to, const float (&v)[8]) {
  ((float4*)to)[0] = *(const float4*)&v[0], ((float4*)to)[1] = *(const float4*)&v[4];
}
template <class T>
__device__ __forceinline__ void store(T* to, const float (&v)[8], int left, int, const Lists&, const Finish&) {
  if (VECTOR) store8(to, v);
  else
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < left) to[e] = of_f32<T>(v[e]);
}
#if DT == 3
__device__ __forceinline__ void store(u8* to, const float (&v)[8], int left, int channel, const Lists& lists,
                                      const Finish& finish) {
  Steps q[8];
#pragma unroll
  for (int e = 0; e < 8; ++e)
    q[e] = is_there(e, left) ? steps_of(v[e], inverse_of(lists.inverses, channel + e, finish), finish) : 0;
  const u32 words[2] = {pack_bytes(q[0], q[1], q[2], q[3]), pack_bytes(q[4], q[5], q[6], q[7])};
  if (VECTOR) *(uint2*)to = *(const uint2*)words;
  else
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < left) to[e] = (u8)(words[e / 4] >> (8 * (e % 4)));
}
#endif

// What is known of eight channels: the bias; of bytes also the scale, and what the zero point adds.
struct Channels {
  float bias[8];
#if DT == 3
  float scale[8];
  int zeros[8];
#endif
  __device__ __forceinline__ Channels(const Lists& lists, int channel, int left) {
#pragma unroll
    for (int e = 0; e < 8; ++e) bias[e] = e < left ? lists.bias[channel + e] : 0.f;
#if DT == 3
#pragma unroll
    for (int e = 0; e < 8; ++e)
      scale[e] = e < left ? lists.scale[channel + e] : 0.f, zeros[e] = e < left ? lists.zero_sums[channel + e] : 0;
#endif
  }
};
__device__ __forceinline__ void load_residual(Added (&residual)[8], const Other* from, int left, int channel,
                                              const Lists& lists, const Finish& finish) {
#if DT == 3
  u32 words[2] = {};
  if (VECTOR) *(uint2*)words = *(const uint2*)from;
  else
    for (int e = 0; e < 8; ++e)
      if (e < left) words[e / 4] |= (u32)from[e] << (8 * (e % 4));
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (is_there(e, left))
      residual[e] = residual_of(words[e / 4], e % 4, r_scale_of(lists.r_scales, channel + e, finish), finish);
#else
  if (VECTOR) load8(residual, from);
  else
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < left) residual[e] = f32_of(from[e]);
#endif
}
// Of channel e.
__device__ __forceinline__ float result_of(Sum sum, const Channels& channels, int e, Added residual,
                                           const Finish& finish) {
#if DT == 3
  return real_of<sizeof(TY) < 4, sizeof(TY) == 1>(sum + channels.zeros[e], channels.scale[e], channels.bias[e],
                                                  residual, finish);
#else
  float v = sum + channels.bias[e];
  if (RESIDUAL == 1) v += residual;
  v = activate<ACT, sizeof(TY) == 2>(v, finish.alpha, finish.beta);
  if (RESIDUAL == 2) v += residual;
  return v;
#endif
}
