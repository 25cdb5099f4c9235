// SPDX-License-Identifier: Apache-2.0
#include "metrics/agreement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tenon::metrics {

std::vector<float> logits_of(std::span<const float> scores) {
  constexpr float least = 1e-12f;
  std::vector<float> logits(scores.begin(), scores.end());
  double sum = 0;
  for (const float score : scores) {
    if (score < 0) return logits;
    sum += score;
  }
  if (std::fabs(sum - 1) > 1e-2) return logits;
  for (float& logit : logits) logit = std::log(std::max(logit, least));
  return logits;
}

double margin(std::span<const float> logits, int best) {
  float other = -std::numeric_limits<float>::infinity();
  for (size_t at = 0; at < logits.size(); ++at)
    if (static_cast<int>(at) != best) other = std::max(other, logits[at]);
  return double{logits[static_cast<size_t>(best)]} - other;
}

void Agreement::add(double exact, double other) {
  if (std::isnan(other)) other = -std::numeric_limits<double>::infinity();
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

void SureAgreement::add(size_t sample, double exact, double other) {
  margins_.push_back({sample, exact});
  changes_.push_back({sample, other - exact});
  sorted_ = false;
}

double SureAgreement::lost(std::span<const uint32_t> weights) {
  if (!sorted_) {
    std::ranges::sort(margins_, std::greater(), &One::number);
    std::ranges::sort(changes_, std::less(), &One::number);
    sorted_ = true;
  }
  const auto weight = [&](const One& one) { return weights.empty() ? 1.0 : weights[one.sample]; };
  double all = 0, losing = 0, lost = 0;
  for (size_t at = 0, end = 0; at < margins_.size(); ++at) {
    for (; end < changes_.size() && changes_[end].number < -margins_[at].number; ++end) losing += weight(changes_[end]);
    lost += weight(margins_[at]) * std::tanh(margins_[at].number / 2) * losing;
    all += weight(margins_[at]);
  }
  return all == 0 ? 0 : lost / (all * all);
}

double Votes::lost(size_t image, int from, int to) const {
  double lost = 0;
  for (const std::vector<int>& classes : copies_) lost += (classes[image] == from) - (classes[image] == to);
  return copies_.empty() ? 0 : lost / static_cast<double>(copies_.size());
}

}  // namespace tenon::metrics
