// SPDX-License-Identifier: Apache-2.0
#include "compile/measure.h"

#include <algorithm>
#include <cmath>

#include "plan/plan.h"

namespace tenon::compile {
namespace {

constexpr double most_spread = 0.1, least_spread = 1;  // of times that say the same; microseconds
constexpr size_t tries = 2;     // undisturbed runs that agree, before a tactic may be found hopeless
constexpr double hopeless = 3;  // times the least time of all

double median_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// What was measured of one tactic, in microseconds.
struct Runs {
  std::vector<double> all, undisturbed;

  const std::vector<double>& best() const { return undisturbed.empty() ? all : undisturbed; }
  double least() const { return *std::min_element(best().begin(), best().end()); }
  double median() const { return median_of(best()); }
  /// Undisturbed ones that agree with the tactic's time.
  size_t agreeing(double time) const {
    const double spread = std::max(most_spread * time, least_spread);
    return static_cast<size_t>(std::count_if(undisturbed.begin(), undisturbed.end(),
                                             [&](double one) { return std::fabs(one - time) <= spread; }));
  }
};

}  // namespace

std::vector<Measurement> measure(backends::TacticTimer& timer, std::span<const size_t> ready,
                                 const backends::TimingPolicy& policy, bool thoroughly, double known,
                                 Allowance& allowance) {
  const auto enough = static_cast<size_t>(std::min(3, policy.repeats));
  std::vector<Runs> runs(ready.size());
  double spent = 0;
  const auto run = [&](size_t at) {
    const double time = timer.run(ready[at]);
    spent += time;
    runs[at].all.push_back(time);
    if (!timer.disturbed()) runs[at].undisturbed.push_back(time);
  };
  double best = plan::never;
  // Two disturbed runs of a short kernel, or of one whose helpers were late, may take any time.
  const auto is_hopeless = [&](size_t at) {
    const double least = runs[at].least();
    return runs[at].agreeing(least) >= tries && least > hopeless * std::min(best, known);
  };
  for (int repeat = 0; repeat < policy.repeats; ++repeat) {
    for (size_t at = 0; at < ready.size(); ++at)
      if (repeat < static_cast<int>(tries) || !is_hopeless(at)) run(at);
    for (const Runs& one : runs) best = std::min(best, one.least());
  }
  std::vector<size_t> contenders;
  for (size_t at = 0; at < ready.size(); ++at)
    if (runs[at].least() <= std::min(best, known) * policy.near) contenders.push_back(at);
  const bool settled = contenders.size() < 2 && policy.repeats > 1;
  for (int repeat = 0; !settled && thoroughly && repeat < policy.more_repeats; ++repeat)
    for (const size_t at : contenders) run(at);
  const auto time_of = [&](size_t at) { return policy.by_least ? runs[at].least() : runs[at].median(); };
  // A least time is borne out by a few, a median by most.
  const auto is_short = [&](size_t at) {
    if (policy.repeats > static_cast<int>(tries) && is_hopeless(at)) return false;
    const size_t most = policy.by_least ? 0 : runs[at].all.size() / 2 + 1;
    return runs[at].agreeing(time_of(at)) < std::max(enough, most);
  };
  allowance.earn(spent);
  const double before = spent;
  for (const double limit = std::min(2 * spent, spent + allowance.microseconds); spent < limit;) {
    bool any = false;
    for (size_t at = 0; at < ready.size(); ++at)
      if (is_short(at)) run(at), any = true;
    if (!any) break;
  }
  allowance.spend(spent - before);
  std::vector<Measurement> results;
  for (size_t at = 0; at < ready.size(); ++at) results.push_back({time_of(at), is_short(at)});
  return results;
}

Comparison compare(const std::function<double()>& one, const std::function<double()>& other) {
  constexpr int rounds = 9, attempts = 2;
  Comparison result{};
  for (int attempt = 0; attempt < attempts && !result.steady; ++attempt) {
    std::vector<double> ones, others;
    for (int round = 0; round < rounds; ++round) ones.push_back(one()), others.push_back(other());
    result = {median_of(ones), median_of(others), true};
    for (const auto& [times, median] : {std::pair(&ones, result.one), std::pair(&others, result.other)})
      result.steady = result.steady && std::count_if(times->begin(), times->end(), [&, middle = median](double time) {
                                         return std::fabs(time - middle) <= most_spread * middle;
                                       }) > rounds / 2;
  }
  return result;
}

}  // namespace tenon::compile
