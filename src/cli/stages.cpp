// SPDX-License-Identifier: Apache-2.0
#include "cli/stages.h"

#include <algorithm>

namespace tenon::cli {
namespace {

constexpr double told_from = 0.2;   // of the whole: before, the time left is a guess
constexpr double most_told = 0.99;  // that is over is told by the end, not by a guess

constexpr const char* recurrent = "recurrent layers";  // which an engine is tuned and judged for

/// Steps of a judged build, and of one that only calibrates.
enum Judged { floats, judge, calibrate, scales, layers, search };
enum Calibrated { seen, chosen, measured, tuned };

int steps_of(BuildKind kind) {
  if (kind == BuildKind::plain) return 1;
  return 1 + (kind == BuildKind::calibrated ? int{tuned} : int{search});
}

bool is_of_layers(const std::string& stage) {
  return stage == "measure layers" || stage == "place layers" || stage == "reconstruct weights";
}

}  // namespace

int Stages::step_of(const std::string& stage) const {
  if (kind_ == BuildKind::plain) return 0;
  if (kind_ == BuildKind::calibrated) {
    if (stage == "calibrate") return seen;
    if (stage == "choose ranges") return chosen;
    return is_of_layers(stage) ? measured : calibrates_ ? tuned : seen;
  }
  if (stage == "judge fp32" || stage == "judge jitter" || stage == "judge copies") return judge;
  if (stage == recurrent) return judge;
  if (stage == "calibrate") return calibrate;
  if (stage == "choose ranges") return scales;
  if (is_of_layers(stage)) return std::max<int>(step_, layers);
  // Engines are tuned and judged to choose scales, and in the search; a cache leaves out what is between.
  return step_ == floats || step_ == scales || (step_ == judge && tries_recurrent_) ? step_ : search;
}

Stages::Place Stages::at(const std::string& stage, double seconds, double left) {
  tries_recurrent_ = stage == recurrent || (tries_recurrent_ && (stage == "tune" || stage == "judge"));
  step_ = std::max(step_, step_of(stage));
  calibrates_ = calibrates_ || stage == "calibrate" || stage == "choose ranges";
  if (left >= 0) end_ = seconds + left;
  Place place{step_ + 1, steps_of(kind_), last_, -1};
  if (end_ < 0) return place;
  const double rest = std::max(0.0, end_ - seconds);
  if (seconds + rest > 0) place.done = last_ = std::max(last_, std::min(most_told, seconds / (seconds + rest)));
  if (last_ >= told_from) place.left = rest;
  return place;
}

}  // namespace tenon::cli
