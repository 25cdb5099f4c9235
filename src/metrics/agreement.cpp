// SPDX-License-Identifier: Apache-2.0
#include "metrics/agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::metrics {

double margin(std::span<const float> scores, int best) {
  double sum = 0;
  float other = -std::numeric_limits<float>::infinity();
  bool probabilities = true;
  for (size_t at = 0; at < scores.size(); ++at) {
    sum += scores[at];
    probabilities = probabilities && scores[at] >= 0;
    if (static_cast<int>(at) != best) other = std::max(other, scores[at]);
  }
  const float own = scores[static_cast<size_t>(best)];
  if (!probabilities || std::fabs(sum - 1) > 1e-2) return double{own} - other;
  constexpr float least = 1e-12f;
  return std::log(std::max(own, least)) - std::log(std::max(other, least));
}

void Agreement::add(double exact, double other) {
  margins_.push_back(exact);
  changes_.push_back(other - exact);
}

double Agreement::value(std::span<const uint32_t> weights) const {
  std::vector<std::pair<double, double>> changes;  // with the weights of all up to there
  for (size_t at = 0; at < changes_.size(); ++at) changes.push_back({changes_[at], weights.empty() ? 1 : weights[at]});
  std::sort(changes.begin(), changes.end());
  double all = 0;
  for (auto& [change, weight] : changes) weight = all += weight;
  if (all == 0) return 0;
  double lost = 0;
  for (size_t at = 0; at < margins_.size(); ++at) {
    // All changes below -margin lose the class.
    const auto end = std::lower_bound(changes.begin(), changes.end(), std::pair(-margins_[at], -1.0));
    if (end != changes.begin()) lost += (weights.empty() ? 1 : weights[at]) * std::prev(end)->second;
  }
  return 1 - lost / (all * all);
}

}  // namespace tenon::metrics
