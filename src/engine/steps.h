// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"

/// The part of an engine file that says what runs: profiles, steps, and what is carried from run to run.
namespace tenon::engine {

nlohmann::json json_of_steps(const plan::Plan& plan);
/// Throws nlohmann's exceptions where the text holds something else, std::logic_error where it makes no sense. Whether
/// the steps are those of the graph is seen when they are first bound.
void read_steps(const nlohmann::json& json, plan::Plan& plan);

}  // namespace tenon::engine
