// SPDX-License-Identifier: Apache-2.0
#include "compile/measure.h"

#include <algorithm>

namespace tenon::compile {
namespace {

/// What was measured of one tactic, in microseconds.
struct Runs {
  std::vector<double> all, undisturbed;

  const std::vector<double>& best() const { return undisturbed.empty() ? all : undisturbed; }
  double least() const { return *std::min_element(best().begin(), best().end()); }
  double median() const {
    std::vector<double> sorted = best();
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

}  // namespace

std::vector<Measurement> measure(backends::TacticTimer& timer, std::span<const size_t> ready,
                                 const backends::TimingPolicy& policy, bool thoroughly, double known) {
  const auto enough = static_cast<size_t>(std::min(3, policy.repeats));
  std::vector<Runs> runs(ready.size());
  double spent = 0;
  const auto run = [&](size_t at) {
    const double time = timer.run(ready[at]);
    spent += time;
    runs[at].all.push_back(time);
    if (!timer.disturbed()) runs[at].undisturbed.push_back(time);
  };
  for (int repeat = 0; repeat < policy.repeats; ++repeat)
    for (size_t at = 0; at < ready.size(); ++at) run(at);
  double best = known;
  for (const Runs& one : runs) best = std::min(best, one.least());
  std::vector<size_t> contenders;
  for (size_t at = 0; at < ready.size(); ++at)
    if (runs[at].least() <= best * policy.near) contenders.push_back(at);
  const bool settled = contenders.size() < 2 && policy.repeats > 1;
  for (int repeat = 0; !settled && thoroughly && repeat < policy.more_repeats; ++repeat)
    for (const size_t at : contenders) run(at);
  const auto is_short = [&](size_t at) { return runs[at].undisturbed.size() < enough; };
  for (const double limit = 2 * spent; spent < limit;) {
    bool any = false;
    for (size_t at = 0; at < ready.size(); ++at)
      if (is_short(at)) run(at), any = true;
    if (!any) break;
  }
  std::vector<Measurement> results;
  for (size_t at = 0; at < ready.size(); ++at)
    results.push_back({policy.by_least ? runs[at].least() : runs[at].median(), is_short(at)});
  return results;
}

}  // namespace tenon::compile
