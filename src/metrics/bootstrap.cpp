// SPDX-License-Identifier: Apache-2.0
#include "metrics/bootstrap.h"

#include <algorithm>
#include <random>

namespace tenon::metrics {

void Share::add(double part, double whole) {
  parts_.push_back(part);
  wholes_.push_back(whole);
}

double Share::value(std::span<const uint32_t> weights) const {
  double part = 0, whole = 0;
  for (size_t at = 0; at < parts_.size(); ++at) {
    const double weight = weights.empty() ? 1 : weights[at];
    part += weight * parts_[at];
    whole += weight * wholes_[at];
  }
  return whole != 0 ? part / whole : 0;
}

Interval bootstrap(int64_t images, const std::function<double(std::span<const uint32_t>)>& figure) {
  constexpr size_t rounds = 400;
  std::mt19937_64 random(2026);  // its numbers are the same everywhere; a distribution's would not be
  std::vector<uint32_t> weights(static_cast<size_t>(images));
  std::vector<double> figures;
  for (size_t round = 0; round < rounds; ++round) {
    std::fill(weights.begin(), weights.end(), 0);
    for (int64_t draw = 0; draw < images; ++draw) ++weights[random() % static_cast<uint64_t>(images)];
    figures.push_back(figure(weights));
  }
  std::sort(figures.begin(), figures.end());
  return {figures[rounds / 40], figures[rounds - 1 - rounds / 40]};
}

}  // namespace tenon::metrics
