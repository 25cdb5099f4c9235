#pragma once
#include "plan/plan.h"

namespace tenon::compile {

/// Times every tactic of every step that has a choice, on the plan's device, within `budget_seconds` (below 0: no
/// limit), and fills plan.records. Records that `known` holds are taken as they are.
void tune(plan::Plan& plan, const plan::Records& known, double budget_seconds, const Progress& progress);

}  // namespace tenon::compile
