// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "explain/report.h"

namespace tenon::explain {
namespace {

constexpr double most_spread = 0.1, most_change = 0.1;  // of the middle, and of what the build measured
constexpr double usual_alone = 1.3;                     // of steps: caches are warmer alone than in the network

std::string run_ms(double microseconds) { return fmt::format("{:.3f} ms", microseconds / 1000); }

/// Milliseconds that the search measured of the engine chosen; 0: it did not.
double searched(const plan::Search& search) {
  for (const plan::SearchPoint& point : search.points)
    if (point.chosen) return point.milliseconds;
  return 0;
}

/// Steps take another time than when they were timed, each alone.
std::string change_of_steps(const Report& report) {
  double recorded = 0, now = 0;
  for (const Row& row : report.rows)
    if (row.alone > 0 && row.microseconds > 0) recorded += row.alone, now += row.microseconds;
  if (recorded <= 0 || (now < usual_alone * recorded && recorded < usual_alone * now)) return "";
  return fmt::format("the timed steps take {} now and took {} when they were recorded, each alone", run_ms(now),
                     run_ms(recorded));
}

}  // namespace

Runs runs_of(std::vector<double> microseconds) {
  if (microseconds.empty()) return {};
  std::sort(microseconds.begin(), microseconds.end());
  const size_t count = microseconds.size();
  return {count, microseconds[count / 2], microseconds[count / 10], microseconds[count - 1 - count / 10]};
}

std::vector<std::string> doubts_of(const Report& report) {
  std::vector<std::string> doubts;
  const Runs& runs = report.runs;
  if (!report.measured) return doubts;
  if (runs.spread() > most_spread)
    doubts.push_back(fmt::format("runs differ by {:.0f} %, more than {:.0f} %: other work disturbs this machine, and "
                                 "times and shares below are no better than that",
                                 100 * runs.spread(), 100 * most_spread));
  std::string change = change_of_steps(report);
  if (const double built = 1000 * searched(report.evidence.search); built > 0 && runs.middle > 0) {
    change.clear();
    if (runs.middle > (1 + most_change) * built || built > (1 + most_change) * runs.middle)
      change = fmt::format("a run takes {} now and took {} when the engine was built", run_ms(runs.middle),
                           run_ms(built));
  }
  if (!change.empty())
    doubts.push_back(change + ": the machine is busier, slower or faster than at the build, and percentages are of "
                              "the present times");
  return doubts;
}

}  // namespace tenon::explain
