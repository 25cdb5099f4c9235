// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/timing_cache.h"

namespace tenon::compile {

/// The final ranking of a plan inside its whole network, on a device whose steps overlap; others are left as they are.
/// It settles whether branches run at the same time, whether groups run as one step, and of tactics that were nearly as
/// fast alone, the one with which the network is faster. Takes seconds, at most `budget_seconds` (below 0: no limit; 0:
/// nothing is done). What `cache` knows of the same network is taken as it is, and what is found is added
/// unless times differed by more than 10 %; then nothing is changed by them, either.
void rank(plan::Plan& plan, plan::TimingCache& cache, double budget_seconds, const Progress& progress);

/// Milliseconds that a run of each takes on the plans' device, in alternating rounds. Sizes must be known.
std::pair<double, double> time_both(const plan::Plan& one, const plan::Plan& other);

}  // namespace tenon::compile
