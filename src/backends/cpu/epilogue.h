#pragma once
#include <optional>

#include "backends/cpu/isa.h"

#include "backends/cpu/kernels/shape.h"
#include "ir/graph.h"

namespace tenon::cpu {

/// The activation and residual that passes attached to a node; nullopt for an activation no kernel has.
std::optional<Epilogue> epilogue_of(const ir::Node& node);
/// The instruction set kernels are made for: the machine's best, held to TENON_ISA where that is set.
Isa active_isa();

}  // namespace tenon::cpu
