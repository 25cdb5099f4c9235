// SPDX-License-Identifier: Apache-2.0
#include "quant/calibrators.h"

#include <cmath>

#include "base/check.h"

namespace tenon::quant {
namespace {

constexpr int levels = 128;

/// Sums over the bins up to each one, so that a candidate costs its levels and not its bins.
struct Prefix {
  std::vector<double> count, filled, entropy;  // of counts, of bins that hold anything, of count * log(count)
  explicit Prefix(const std::vector<int64_t>& counts) : count(1, 0), filled(1, 0), entropy(1, 0) {
    for (const int64_t n : counts) {
      const auto x = static_cast<double>(n);
      count.push_back(count.back() + x);
      filled.push_back(filled.back() + (n > 0));
      entropy.push_back(entropy.back() + (n > 0 ? x * std::log(x) : 0));
    }
  }
};

/// What the folded tail is compared with where its bin holds nothing itself.
constexpr double nearly_none = 1e-4;

/// KL(P || Q) with P the first `size` bins and the tail on the last of them, Q those bins in levels.
double divergence(const Prefix& prefix, int64_t size) {
  const double all = prefix.count.back(), tail = all - prefix.count[size];
  const double last = prefix.count[size] - prefix.count[size - 1];
  if (all <= 0) return INFINITY;
  double sum = 0, q_sum = 0;
  for (int64_t level = 0; level < levels; ++level) {
    const int64_t begin = level * size / levels, end = (level + 1) * size / levels;
    const bool at_end = end == size;
    const double total = prefix.count[end] - prefix.count[begin];
    const double filled = prefix.filled[end] - prefix.filled[begin];
    double p = total, entropy = prefix.entropy[end] - prefix.entropy[begin];
    if (at_end && tail > 0) {
      // The last bin is taken out here and put back with its tail.
      p -= last;
      if (last > 0) entropy -= last * std::log(last);
      sum += (last + tail) * std::log((last + tail) / (last > 0 ? total / filled : nearly_none));
      if (last <= 0) q_sum += nearly_none;
    }
    q_sum += total;
    if (p > 0) sum += entropy - p * std::log(total / filled);
  }
  return sum / all + std::log(q_sum / all);
}

double least_divergence(const Histogram& histogram, bool legacy) {
  std::vector<int64_t> counts = histogram.magnitudes();
  if (!legacy) counts[0] -= histogram.zeros();
  const auto last = static_cast<int64_t>(counts.size());
  if (last <= levels) return histogram.largest();
  const Prefix prefix(counts);
  double least = INFINITY;
  int64_t best = last;
  for (int64_t size = levels; size <= last; ++size) {
    const double found = divergence(prefix, size);
    if (found < least) least = found, best = size;
  }
  return (static_cast<double>(best) + 0.5) * histogram.width();
}

Range within(const Histogram& histogram, double threshold) {
  const auto t = static_cast<float>(threshold);
  return {std::max(histogram.low(), -t), std::min(histogram.high(), t)};
}

}  // namespace

double percentile_threshold(const Histogram& histogram, double percentile) {
  const std::vector<int64_t> counts = histogram.magnitudes();
  const double wanted = percentile / 100 * static_cast<double>(histogram.count());
  int64_t below = 0;
  for (size_t at = 0; at < counts.size(); ++at) {
    below += counts[at];
    if (static_cast<double>(below) >= wanted) return static_cast<double>(at + 1) * histogram.width();
  }
  return histogram.largest();
}

double entropy_threshold(const Histogram& histogram) { return least_divergence(histogram, false); }
double entropy_legacy_threshold(const Histogram& histogram) { return least_divergence(histogram, true); }

double squared_error(const Histogram& histogram, const Quantiser& quantiser) {
  const double width = histogram.width();
  double sum = 0;
  for (int sign = 0; sign < 2; ++sign) {
    const auto counts = sign ? histogram.negatives() : histogram.positives();
    for (size_t at = 0; at < counts.size(); ++at) {
      // Exact zeros are stored exactly.
      const int64_t count = counts[at] - (sign == 0 && at == 0 ? histogram.zeros() : 0);
      if (count == 0) continue;
      const double centre = (static_cast<double>(at) + 0.5) * width * (sign ? -1 : 1);
      const double wrong = centre - quantiser.round(static_cast<float>(centre));
      sum += wrong * wrong * static_cast<double>(count);
    }
  }
  return sum / static_cast<double>(std::max<int64_t>(1, histogram.count()));
}

Range mse_range(const Histogram& histogram) {
  constexpr int steps = 100;
  const Range whole{std::min(histogram.low(), 0.f), std::max(histogram.high(), 0.f)};
  Range best = whole;
  double least = squared_error(histogram, Quantiser::of(best));
  for (bool moved = true; moved;) {
    moved = false;
    for (int end = 0; end < 2; ++end)
      for (int step = 1; step <= steps; ++step) {
        Range trial = best;
        const float part = static_cast<float>(step) / steps;
        (end ? trial.high : trial.low) = (end ? whole.high : whole.low) * part;
        const double error = squared_error(histogram, Quantiser::of(trial));
        if (error < least * (1 - 1e-9)) least = error, best = trial, moved = true;
      }
  }
  return best;
}

Range range_of(const Histogram& histogram, CalibrationMethod method, double percentile) {
  switch (method) {
    case CalibrationMethod::min_max: return {histogram.low(), histogram.high()};
    case CalibrationMethod::percentile: return within(histogram, percentile_threshold(histogram, percentile));
    case CalibrationMethod::mse: return mse_range(histogram);
    case CalibrationMethod::entropy: return within(histogram, entropy_threshold(histogram));
    case CalibrationMethod::entropy_legacy: return within(histogram, entropy_legacy_threshold(histogram));
    case CalibrationMethod::automatic: break;
  }
  TENON_CHECK(false, "automatic is no range");
}

}  // namespace tenon::quant
