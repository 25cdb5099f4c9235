// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/limits.h"
#include "backends/problem.h"
#include "explain/report.h"

/// The least time that a step could take: what it has to move, and to multiply, at the limits of the machine.
namespace tenon::explain {

/// Each operand once; of what moves or picks data, the output twice, as it may read a part. Products of weights that
/// are known, or of two operands; those of bytes and 16-bit floats count as quarters and halves.
Work work_of(const backends::Problem& problem);

/// Microseconds of the work at these limits.
Floor floor_of(const Work& work, const backends::Limits& limits);

/// Gives rows their floors and fills `far`.
void set_floors(Report& report, const backends::Limits& limits);

}  // namespace tenon::explain
