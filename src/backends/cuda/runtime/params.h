// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "backends/cuda/runtime/driver.h"

/// What the headers of kernels' parameters, which NVRTC reads too, say of types: there a POINTER is one, here it is an
/// address of the device's memory.
#define POINTER(type) ::tenon::cuda::Address

namespace tenon::cuda {

using i64 = int64_t;
using u32 = uint32_t;
using u64 = uint64_t;

}  // namespace tenon::cuda
