// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "backends/kernel.h"
#include "backends/cpu/isa.h"

#include "backends/cpu/kernels/shape.h"
#include "ir/graph.h"

namespace tenon::cpu {

/// The activation and residual that passes attached to a node, whose slopes it points to.
Epilogue epilogue_of(const ir::Node& node);
/// A list of `count` numbers so many times; empty where there is none.
std::vector<float> repeated(const float* list, int64_t count, int64_t times);
/// The instruction set kernels are made for: the machine's best, held to TENON_ISA where that is set.
Isa active_isa();
/// That for the floating point steps of a problem: where products have to be added in one rounding, not Isa::portable.
Isa isa_for(const backends::Problem& problem);

}  // namespace tenon::cpu
