// SPDX-License-Identifier: Apache-2.0
#include "metrics/scored_signal.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::metrics {

void ScoredSignal::add(size_t channel, std::span<const double> weights, std::span<const float> exact,
                       std::span<const float> other, int64_t stride) {
  if (channels_.size() <= channel) channels_.resize(channel + 1);
  Sums sums;
  for (size_t at = 0; at < weights.size(); ++at) {
    const double weight = weights[at], x = exact[at * static_cast<size_t>(stride)];
    const double off = x - other[at * static_cast<size_t>(stride)];
    sums.weight += weight, sums.numbers += weight * x, sums.squares += weight * x * x;
    sums.wrong += std::isnan(off) ? std::numeric_limits<double>::infinity() : weight * off * off;
  }
  channels_[channel].push_back(sums);
}

void ScoredSignal::skip(bool is_lost) {
  if (channels_.empty()) channels_.emplace_back();
  for (std::vector<Sums>& samples : channels_)
    samples.push_back({.wrong = is_lost ? std::numeric_limits<double>::infinity() : 0});
}

double ScoredSignal::lost(std::span<const uint32_t> weights) const {
  double lost = 0;
  int64_t count = 0;
  for (const std::vector<Sums>& samples : channels_) {
    Sums all;
    for (size_t at = 0; at < samples.size(); ++at) {
      const double times = weights.empty() ? 1 : weights[at];
      if (times == 0) continue;
      all.weight += times * samples[at].weight, all.numbers += times * samples[at].numbers;
      all.squares += times * samples[at].squares, all.wrong += times * samples[at].wrong;
    }
    const double variance = all.weight > 0 ? all.squares - all.numbers * all.numbers / all.weight : 0;
    const double scale = variance > 1e-9 * all.squares ? variance : all.squares;
    if (!(scale > 0) && all.wrong == 0) continue;
    lost += scale > 0 ? std::min(1.0, all.wrong / scale) : 1, ++count;
  }
  return count > 0 ? lost / static_cast<double>(count) : 0;
}

}  // namespace tenon::metrics
