// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile/measure.h"
#include "plan/plan.h"

namespace tenon::compile {

/// How a tuning went: tactics that were timed, and those whose times are not to be kept, as others used the cores.
struct Tuned {
  int64_t tactics = 0, disturbed = 0;
  Tuned& operator+=(const Tuned& other) {
    tactics += other.tactics, disturbed += other.disturbed;
    return *this;
  }
};

/// What the tunings of one build share, so that a busy machine is waited for once and not with each plan.
struct Disturbed {
  plan::Records records;  ///< of tactics whose times were disturbed to the end
  Allowance allowance;
};

/// Times every tactic of every step that has a choice, on the plan's device, within `budget_seconds` (below 0: no
/// limit), and fills plan.records. Measurements of `known` and of plan.records that are of the kernels as this program
/// has them are kept; what remains is timed. A time that was disturbed to the end is recorded without a source, as one
/// that this program did not measure; a later plan of the build takes it from `disturbed`.
Tuned tune(plan::Plan& plan, const plan::Records& known, Disturbed& disturbed, double budget_seconds,
           const Progress& progress);

}  // namespace tenon::compile
