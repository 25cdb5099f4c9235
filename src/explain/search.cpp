// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/printable.h"
#include "explain/report.h"

namespace tenon::explain {

namespace {

constexpr double most_jitters = 100;  // a change so small says nothing of this one

/// Two places, without a minus before 0.00.
std::string points_text(double points) { return fmt::format("{:.2f}", std::fabs(points) < 0.005 ? 0 : points); }
/// The same with as many places as show that they are above the limit, up to six.
std::string above_text(double points, double limit) {
  constexpr int most_places = 6;
  int places = 2;
  while (places < most_places && std::round(points * std::pow(10, places)) <= limit * std::pow(10, places)) ++places;
  return fmt::format("{:.{}f}", points, places);
}

/// What would move on from the engine chosen: of those that are faster, the one that loses least, by one that is not
/// objected to where there is such.
std::string next_text(const plan::Search& search) {
  constexpr double notable = 0.98;  // of the time
  const auto chosen =
      std::find_if(search.points.begin(), search.points.end(), [](const plan::SearchPoint& one) { return one.chosen; });
  if (chosen == search.points.end()) return {};
  const plan::SearchPoint* next = nullptr;
  for (const plan::SearchPoint& one : search.points) {
    const bool faster = one.milliseconds > 0 && one.milliseconds < chosen->milliseconds * notable;
    if (!faster || one.integer == 0 || (one.drop <= search.limit && one.objection.empty())) continue;
    const bool fine = one.objection.empty(), was_fine = next && next->objection.empty();
    if (!next || (fine == was_fine ? one.drop < next->drop : fine)) next = &one;
  }
  if (!next) return {};
  const auto measures = [&](const char* what) { return search.metric.find(what) != std::string::npos; };
  const bool by_labels = !measures("fp32");
  const bool takes_labels = !by_labels && (measures("boxes") || measures("top-1"));  // others have none
  const std::string what = fmt::format("{} in INT8 would take {:.3f} ms and lose {} points",
                                       counted(next->integer, "layer"), next->milliseconds, points_text(next->drop));
  if (next->objection.empty())
    return fmt::format("to move on: --max-drop {:g}: {}{}\n", std::ceil(next->drop * 10) / 10, what,
                       takes_labels ? "; with labels (--eval FILE) it is known what that costs" : "");
  return fmt::format("to move on: {}: {}, but {}\n", takes_labels ? "labels (--eval FILE)" : "more or other --data",
                     what, next->objection);
}
}  // namespace

std::string search_text(const plan::Search& search) {
  std::string text = fmt::format("{} on {}; at most {:g} percentage points below fp32\n", printable(search.metric),
                                 counted(search.samples, "sample"), search.limit);
  if (!search.reason.empty()) text += "  " + search.reason + "\n";
  text += fmt::format("  {:>9} {:>12} {:>7} {:>8} {:>7}  {}\n", "ms", "int8 layers", "rest", "points", "drop",
                      "95 % interval");
  for (size_t at = 0; at < search.points.size(); ++at) {
    const plan::SearchPoint& point = search.points[at];
    text += fmt::format("{} {:>9} {:>12} {:>7} {:8.2f}", point.chosen ? '*' : ' ',
                        point.milliseconds > 0 ? fmt::format("{:.3f}", point.milliseconds) : "?",
                        fmt::format("{} of {}", point.integer, point.integer + std::ssize(point.floats)),
                        printable(point.rest), point.value);
    if (at > 0)
      text += fmt::format(" {:>7}  {} to {}", points_text(point.drop), points_text(point.low), points_text(point.high));
    if (!point.objection.empty()) text += "; refused: " + point.objection;
    else if (point.integer > 0 && point.drop > search.limit)
      text += fmt::format("; refused: {} is more than {:g}", above_text(point.drop, search.limit), search.limit);
    text += "\n";
  }
  for (const plan::SearchPoint& point : search.points) {
    if (!point.chosen) continue;
    text += "* " + search.why;
    if (point.integer > 0 && point.high > search.limit)
      text +=
          fmt::format("; with {} a drop of {} is possible", counted(search.samples, "sample"), points_text(point.high));
    else if (point.integer > 0 && point.low <= 0 && point.high >= 0)
      text += fmt::format("; with {} its drop cannot be told from none", counted(search.samples, "sample"));
    if (point.integer > 0 && search.jitter > 0 && point.drop < most_jitters * search.jitter)
      text += fmt::format("; it differs from fp32 {:.1f} times as much as {} does", point.drop / search.jitter,
                          printable(search.change));
    const auto near = [&](const plan::SearchPoint& one) { return one.integer > 0 && one.low <= search.limit; };
    if (point.integer == 0 && std::any_of(search.points.begin(), search.points.end(), near))
      text += fmt::format("; {} cannot make sure: intervals reach below the limit", counted(search.samples, "sample"));
    text += "\n";
  }
  text += next_text(search);
  if (std::any_of(search.points.begin(), search.points.end(),
                  [](const plan::SearchPoint& one) { return one.rest == "rnn i8"; }))
    text += "rnn i8: fp32 beside recurrent layers whose weights are of 8 bits and whose states are of 16\n";
  return text +
         "ms: one run of the whole; int8 layers: of all convolutions and products; rest: what the others compute in\n"
         "points: the metric in percent; drop: points below fp32, with a paired 95 % interval\n";
}

}  // namespace tenon::explain
