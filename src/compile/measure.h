// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "backends/backend.h"

namespace tenon::compile {

/// A tactic's time, and whether the machine was busy with something else in most of its runs.
struct Measurement {
  double microseconds;
  bool disturbed;
};

/// Times what the timer has made ready, all tactics in turn, so that a slow moment of the machine hits all of them.
/// Those that may be the fastest are timed longer where `thoroughly`, and those whose runs were disturbed again, for as
/// long as the rest took. `known`: the least time in microseconds of tactics that are not timed here.
std::vector<Measurement> measure(backends::TacticTimer& timer, std::span<const size_t> ready,
                                 const backends::TimingPolicy& policy, bool thoroughly, double known);

}  // namespace tenon::compile
