// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace tenon::compile {

/// Of tactics that were timed, prefers those that hold less packed weights, where the network gets no slower by it than
/// a few thousandths of its time. Tactics of steps that share weights may share a packed form, too; and where a network
/// has more weights than caches hold, those of a step come from memory, which is not seen where it is timed alone.
/// For the plan's sizes; what is not known is left as it is.
void choose_packed_forms(plan::Plan& plan);

}  // namespace tenon::compile
