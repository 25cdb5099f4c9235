// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "backends/kernel.h"
#include "ops/resize.h"

namespace tenon::backends {

/// The axes of a Resize whose scales and sizes, where it has any, are constant. Throws Error(invalid_model) naming the
/// node where they contradict its input.
std::vector<ops::resizing::Axis> resize_axes(const Problem& problem);

}  // namespace tenon::backends
