// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

namespace tenon::backends {

/// Copies `dims` elements of `size` bytes between two strided layouts (strides in elements).
void strided_copy(const Dims& dims, size_t size, const std::byte* src, const Dims& src_strides, std::byte* dst,
                  const Dims& dst_strides);

}  // namespace tenon::backends
