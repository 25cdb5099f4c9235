// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace tenon::compile {

/// Times every tactic of every step that has a choice, on the plan's device, within `budget_seconds` (below 0: no
/// limit), and fills plan.records. Measurements of `known` and of plan.records that are of the kernels as this program
/// has them are kept; what remains is timed.
void tune(plan::Plan& plan, const plan::Records& known, double budget_seconds, const Progress& progress);

}  // namespace tenon::compile
