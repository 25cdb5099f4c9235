// SPDX-License-Identifier: Apache-2.0
// Parameters of copies.cu, for the host and for NVRTC.
#pragma once
#ifndef __CUDACC_RTC__
#include "backends/cuda/runtime/params.h"
#endif

namespace tenon::cuda {

constexpr int most_copy_axes = 8, most_copies = 8;

/// A strided copy, a unit a thread. Units are `bytes` bytes that are moved, or (bytes 0) `each` floats that change
/// their type, by the codes 0 f32, 1 f16, 2 bf16. Strides are of elements of `from_bytes` and `to_bytes`.
struct CopyPart {
  POINTER(const u8) from;
  POINTER(u8) to;
  i64 strides[2][most_copy_axes];
  u32 dims[most_copy_axes], factor[most_copy_axes], shift[most_copy_axes];  // as in MapParams
  u32 count, first_block;
  int axes, bytes, each, from_bytes, to_bytes, from_type, to_type;
};

struct CopiesParams {
  CopyPart parts[most_copies];
  int count;
};

}  // namespace tenon::cuda
