// SPDX-License-Identifier: Apache-2.0
#include "metrics/shift.h"

#include <algorithm>
#include <cmath>

namespace tenon::metrics {
namespace {

constexpr double least_score = 0.1, least_overlap = 0.5, most_change = 3;

double log_odds(double score) {
  constexpr double edge = 1e-4;
  const double p = std::clamp(score, edge, 1 - edge);
  return std::log(p / (1 - p));
}

}  // namespace

void Shift::add(double change) {
  ++count_;
  sum_ += change;
  squares_ += change * change;
}

void Shift::add(const std::vector<Found>& before, const std::vector<Found>& after) {
  for (const Found& one : before) {
    if (one.score < least_score) continue;
    const Found* same = nullptr;
    double most = least_overlap;
    for (const Found& other : after) {
      if (other.class_id != one.class_id) continue;
      if (const double share = overlap(other.box, one.box); share >= most) most = share, same = &other;
    }
    add(same ? std::clamp(log_odds(same->score) - log_odds(one.score), -most_change, most_change) : -most_change);
  }
}

double Shift::mean() const { return count_ ? sum_ / static_cast<double>(count_) : 0; }

double Shift::deviation() const {
  if (count_ < 2) return 0;
  const double mean_change = mean();
  return std::sqrt(std::max(0.0, squares_ / static_cast<double>(count_) - mean_change * mean_change));
}

}  // namespace tenon::metrics
