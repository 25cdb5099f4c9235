// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "plan/plan.h"

namespace tenon::compile {

/// The plan of an optimised graph, not lowered, with the weights of its products as options.weights says; with a judge,
/// beside that of floating point, in its evidence. `finish` lowers and tunes a plan. Throws Error(usage) for options
/// that cannot go together, and where there are no such weights.
plan::Plan plan_weight_only(plan::Plan plan, const BuildOptions& options,
                            const std::function<void(plan::Plan&)>& finish);

}  // namespace tenon::compile
