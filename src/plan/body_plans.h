// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "plan/plan.h"

namespace tenon::plan {

/// Plans of the host for the bodies in a concretised graph that are no blocks of its steps: each with the sizes that
/// its operands have there, where these are known and all others follow from them.
std::vector<Plan> body_plans(const Plan& plan, const ir::Graph& graph);

}  // namespace tenon::plan
