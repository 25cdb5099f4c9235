// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tenon/tensor.h>

#include <cstdint>

namespace tenon {

/// Values for an input of concrete sizes, the same for the same seed: floats in [0, 1), small whole numbers for other
/// types.
Tensor random_array(DType dtype, const Dims& dims, uint64_t seed);

}  // namespace tenon
