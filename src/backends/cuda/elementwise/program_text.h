// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "ops/elementwise_program.h"

namespace tenon::cuda {

/// Statements in CUDA C++ that set "r" to what a program computes of the floats "v0", "v1", …, so many operands; the
/// first of them where it has no instruction. `fast`: what is rounded to 16 bits afterwards may be approximate, but for
/// exact expressions.
std::string program_text(const std::vector<ops::Instruction>& program, size_t operands, bool fast);

}  // namespace tenon::cuda
