// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/cpu/dense.h"

/// Weights in f32 for kernels, of constants that are stored in f32 or exactly in 16 bits.
namespace tenon::cpu {

/// Memory for what is packed at once: it goes back to the system as soon as it is given up, unlike that of the heap,
/// and lies apart from packed weights.
Tensor scratch(const Dims& dims);
/// The tensor in f32; itself where it is.
Tensor weights_f32(const Tensor& given);
/// Number `at` of weights of either kind.
float weight_at(const Tensor& given, int64_t at);

inline bool is_16_bit(DType type) { return type == DType::f16 || type == DType::bf16; }
/// Whether all operands hold f32, or, where input 1 is constant, that holds 16-bit floats.
bool takes_weights(const backends::Problem& problem);

/// Runs `make`, a kernel that reads f32 weights where they lie, on weights of its own where they are of 16 bits.
std::unique_ptr<backends::Step> with_f32_weights(const backends::Problem& problem, Make make);
template <Make make>
std::unique_ptr<backends::Step> make_cast(const backends::Problem& problem) {
  return with_f32_weights(problem, make);
}

}  // namespace tenon::cpu
