// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "explain/report.h"

namespace tenon::explain {

/// An engine with its layers in the other of floating point and INT8, for timing alone: the numbers it computes
/// mean nothing. Null where nothing can be switched, and for GPUs.
std::unique_ptr<Engine> switched(const plan::Plan& plan);

/// Fills `switched` of the rows from a profile of that engine, and adds findings. `layers` is its profile.
void compare(Report& report, const std::vector<LayerTime>& layers);

}  // namespace tenon::explain
