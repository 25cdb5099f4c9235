// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/kernels/int8/byte_affine.h"
#include "ops/elementwise_program.h"

namespace tenon::cpu {

/// A program whose every step makes something of the result before and of one input at most, and which gives bytes.
struct AffineProgram {
  ByteAffine affine{};
  std::array<size_t, ByteAffine::most> inputs{};  // which input each operand is
};

/// `are_bytes`: which inputs are bytes, the others are floats.
std::optional<AffineProgram> affine_program(const std::vector<ops::Instruction>& program,
                                            std::span<const bool> are_bytes);

}  // namespace tenon::cpu
