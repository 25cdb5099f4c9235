// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "backends/backend.h"

namespace tenon::compile {

/// A tactic's time, and whether too few runs bear it out: the machine was busy with something else in most of them, or
/// they lie more than 10 % apart.
struct Measurement {
  double microseconds;
  bool disturbed;
};

/// What a build may yet spend on timing again what was disturbed: some seconds, and a part of what timing takes anyway.
/// A machine that is always busy disturbs the last try as well.
struct Allowance {
  static constexpr double share = 0.5;
  double microseconds = 6e6;

  void earn(double timed) { microseconds += share * timed; }
  void spend(double again) { microseconds -= again; }
  bool is_spent() const { return microseconds <= 0; }
};

/// Times what the timer has made ready, all tactics in turn, so that a slow moment of the machine hits all of them.
/// Those that may be the fastest are timed longer where `thoroughly`, and those whose runs were disturbed or differ
/// again, for as long as the rest took and is allowed. Those that are far behind after a few runs are not timed on:
/// what they take is of no use to anybody. `known`: the least time in microseconds of tactics that are not timed here.
std::vector<Measurement> measure(backends::TacticTimer& timer, std::span<const size_t> ready,
                                 const backends::TimingPolicy& policy, bool thoroughly, double known,
                                 Allowance& allowance);

/// Medians of two things timed in alternating rounds, and whether most rounds of each lie within 10 % of its median:
/// where they do not, all is timed once more.
struct Comparison {
  double one, other;
  bool steady;
};
Comparison compare(const std::function<double()>& one, const std::function<double()>& other);

}  // namespace tenon::compile
