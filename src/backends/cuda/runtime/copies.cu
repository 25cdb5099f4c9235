// SPDX-License-Identifier: Apache-2.0
// Several small strided copies, of which each has blocks of its own.
#include "copies_params.h"
typedef tenon::cuda::CopiesParams Params;
typedef tenon::cuda::CopyPart CopyPart;

template <class T>
__device__ __forceinline__ void move(const u8* from, u8* to) {
  *(T*)to = *(const T*)from;
}
__device__ __forceinline__ float number_at(const u8* from, int type, int at) {
  return type == 0 ? ((const float*)from)[at] : type == 1 ? f32_of(((const half*)from)[at])
                                                          : f32_of(((const bf16*)from)[at]);
}

extern "C" __global__ void __launch_bounds__(256)
    copies(const Breadcrumb breadcrumb, const __grid_constant__ Params p) {
  wait_for_previous(breadcrumb);
  int own = 0;
  while (own + 1 < p.count && blockIdx.x >= p.parts[own + 1].first_block) ++own;
  const CopyPart& part = p.parts[own];
  u32 rest = (blockIdx.x - part.first_block) * 256 + threadIdx.x, at;
  if (rest >= part.count) return;
  i64 from_at = 0, to_at = 0;
  for (int axis = part.axes - 1; axis >= 0; --axis) {
    at = rest;
    if (axis > 0) {
      rest = ((u64)__umulhi(at, part.factor[axis]) + at) >> part.shift[axis];
      at -= rest * part.dims[axis];
    }
    from_at += at * part.strides[0][axis], to_at += at * part.strides[1][axis];
  }
  const u8* from = part.from + from_at * part.from_bytes;
  u8* to = part.to + to_at * part.to_bytes;
  switch (part.bytes) {
    case 1: return move<u8>(from, to);
    case 2: return move<u16>(from, to);
    case 4: return move<u32>(from, to);
    case 8: return move<u64>(from, to);
    case 16: return move<uint4>(from, to);
  }
  for (int k = 0; k < part.each; ++k) {
    const float number = number_at(from, part.from_type, k);
    if (part.to_type == 0) ((float*)to)[k] = number;
    else if (part.to_type == 1) ((half*)to)[k] = of_f32<half>(number);
    else ((bf16*)to)[k] = of_f32<bf16>(number);
  }
}
