// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "backends/limits.h"

namespace tenon::cpu {

/// Measures this machine with so many threads; the best of several rounds.
backends::Limits measure_limits(int threads);

}  // namespace tenon::cpu
