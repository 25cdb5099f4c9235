// SPDX-License-Identifier: Apache-2.0
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
// What headers of parameters, which the host reads too, call a pointer.
template <class T>
using Pointer = T*;
#define POINTER(type) Pointer<type>

// ---- 16-bit floats, by their bits; `float16` is the one of this compile: BF16 1: bf16, else f16
struct half {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
// A float of 8 bits: 4 of exponent, 3 of mantissa, no infinity. Compute capability 8.9 and later.
struct e4m3 {
  u8 bits;
};
#ifndef BF16
#define BF16 0
#endif
#if BF16
typedef bf16 float16;
#define FLOAT16_NAME "bf16"
#else
typedef half float16;
#define FLOAT16_NAME "f16"
#endif
__device__ __forceinline__ float f32_of(float x) { return x; }
__device__ __forceinline__ float f32_of(double x) { return x; }
__device__ __forceinline__ float f32_of(u8 x) { return x; }
__device__ __forceinline__ float f32_of(i8 x) { return x; }
__device__ __forceinline__ float f32_of(half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ float f32_of(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
#if __CUDA_ARCH__ >= 890
__device__ __forceinline__ float f32_of(e4m3 x) {
  u32 pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((u16)x.bits));
  return f32_of(half{(u16)pair});
}
#endif
template <class T> __device__ __forceinline__ T of_f32(float x);
template <> __device__ __forceinline__ float of_f32<float>(float x) { return x; }
template <> __device__ __forceinline__ u8 of_f32<u8>(float x) { return (u8)__float2int_rn(x); }
template <> __device__ __forceinline__ i8 of_f32<i8>(float x) { return (i8)__float2int_rn(x); }
template <> __device__ __forceinline__ half of_f32<half>(float x) {
  half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <> __device__ __forceinline__ bf16 of_f32<bf16>(float x) {
#if __CUDA_ARCH__ >= 800
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  const u32 bits = __float_as_uint(x);
  return bf16{(u16)(x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#endif
}
#if __CUDA_ARCH__ >= 890
// The largest number where x lies beyond it.
template <> __device__ __forceinline__ e4m3 of_f32<e4m3>(float x) {
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.f), "f"(x));
  return {(u8)pair};
}
#endif
__device__ __forceinline__ u32 pack_halves(float low, float high) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn." FLOAT16_NAME "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  return of_f32<float16>(low).bits | (u32)of_f32<float16>(high).bits << 16;
#endif
}
__device__ __forceinline__ float half_of(u32 pair, int which) {
  return f32_of(float16{(u16)(pair >> (16 * which))});
}

// ---- what a fault is blamed on: a step that begins leaves its number in the host's memory
struct Breadcrumb {
  volatile u32* place;  // null: nobody asks
  u32 step;
};
// By one thread of each block. The first alone looks at its parameter, which may not be in the constants' cache yet.
__device__ __forceinline__ void leave(const Breadcrumb& breadcrumb) {
  if ((blockIdx.x | blockIdx.y | blockIdx.z) == 0 && breadcrumb.place) *breadcrumb.place = breadcrumb.step;
}

// ---- a kernel may start while the one before it ends; memory of others is touched after wait_for_previous
// Before that: the next kernel may start as well, to fetch what is constant. It takes room of blocks that are waiting
// to run beside this one, so that it pays only where kernels are small and follow one another.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_previous(const Breadcrumb& breadcrumb) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  if (threadIdx.x == 0) leave(breadcrumb);
}
