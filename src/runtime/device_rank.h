#pragma once
#include "plan/timing_cache.h"

namespace tenon::runtime {

/// Settles a plan for a GPU inside its whole network: whether branches run beside each other, and of tactics that were
/// nearly as fast alone, the one with which the network is faster. Takes seconds, at most `budget_seconds` (below 0: no
/// limit; 0: nothing is done). What `cache` knows of the same network is taken as it is, and what is found is added.
void rank(plan::Plan& plan, plan::TimingCache& cache, double budget_seconds, const Progress& progress);

/// Milliseconds that a run of each takes on the plans' GPU, timed in turn. Sizes must be known.
std::pair<double, double> race(const plan::Plan& one, const plan::Plan& other);

}  // namespace tenon::runtime
