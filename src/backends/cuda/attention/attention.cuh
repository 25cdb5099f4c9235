// SPDX-License-Identifier: Apache-2.0
// What kernels of attention begin with: operands by their strides, and rows on their way to shared memory, a chunk of
// 16 bytes behind each. Macros: ELEMENT, type of the operands; THREADS of a block; CHUNKED 1: rows come in chunks of 16
// bytes.
typedef ELEMENT T;
constexpr int CHUNK = 16 / sizeof(T);

#include "side_params.h"
using tenon::cuda::Side;
#include "attention_params.h"
typedef tenon::cuda::AttentionParams Params;

template <class To> __device__ __forceinline__ To as(T x) {
  if constexpr (sizeof(To) == sizeof(T)) return x;
  else return f32_of(x);
}
// Rows [first, first + COUNT) of `WIDTH` columns into shared memory, zeros where there are none; of another type than
// they are only without chunks.
template <int COUNT, int WIDTH, int PADDED, class To>
__device__ __forceinline__ void load(To* to, const T* from, const Side& side, int first, int rows) {
#if CHUNKED
  constexpr int CHUNKS = PADDED / CHUNK;
  for (int i = threadIdx.x; i < COUNT * CHUNKS; i += THREADS) {
    const int row = i / CHUNKS, column = i % CHUNKS * CHUNK;
    const bool there = first + row < rows && column < WIDTH;
    const T* source = from + (there ? (first + row) * side.row + column : 0);
    const u32 target = (u32)__cvta_generic_to_shared(to + row * (PADDED + CHUNK) + column);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(there ? 16 : 0)
                 : "memory");
  }
#else
  for (int i = threadIdx.x; i < COUNT * PADDED; i += THREADS) {
    const int row = i / PADDED, column = i % PADDED;
    To x = {};
    if (first + row < rows && column < WIDTH) x = as<To>(from[(first + row) * side.row + column * side.column]);
    to[row * (PADDED + 16 / (int)sizeof(To)) + column] = x;
  }
#endif
}
__device__ __forceinline__ void commit() {
#if CHUNKED
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT> __device__ __forceinline__ void arrive() {
#if CHUNKED
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}
__device__ __forceinline__ float power(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
