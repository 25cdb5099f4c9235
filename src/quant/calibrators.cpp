// SPDX-License-Identifier: Apache-2.0
#include "quant/calibrators.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace tenon {

std::optional<CalibrationMethod> calibration_method_named(std::string_view name) {
  static constexpr std::pair<std::string_view, CalibrationMethod> methods[] = {
      {"auto", CalibrationMethod::automatic},        {"minmax", CalibrationMethod::min_max},
      {"percentile", CalibrationMethod::percentile}, {"mse", CalibrationMethod::mse},
      {"entropy", CalibrationMethod::entropy},       {"entropy-legacy", CalibrationMethod::entropy_legacy}};
  for (const auto& [known, method] : methods)
    if (known == name) return method;
  return std::nullopt;
}

}  // namespace tenon

namespace tenon::quant {
namespace {

/// The share of the bins that entropy looks at: where in a level values lie costs nothing, and bins much finer than
/// levels would tell little else.
constexpr int64_t merged = 4, levels = 256;

/// Bins of both signs, merged, with sums up to each one.
struct Bins {
  explicit Bins(const Histogram& histogram, bool with_zeros) : width(histogram.width() * merged) {
    for (int sign = 0; sign < 2; ++sign) {
      const auto counts = sign ? histogram.negatives() : histogram.positives();
      Side& side = sides[sign];
      for (size_t at = 0; at < counts.size(); at += merged) {
        int64_t sum = 0;
        for (size_t part = 0; part < merged; ++part) sum += counts[at + part];
        if (at == 0 && sign == 0 && !with_zeros) sum -= histogram.zeros();
        const auto n = static_cast<double>(sum);
        side.count.push_back(n);
        side.below.push_back(side.below.back() + n);
        side.entropy.push_back(side.entropy.back() + (n > 0 ? n * std::log(n) : 0));
      }
    }
  }
  struct Side {
    std::vector<double> count, below{0}, entropy{0};  // of each; sums of counts, and of count * log(count), below
  };
  std::array<Side, 2> sides;  // positives, negatives
  double width;
};

/// What a folded tail is compared with where its bin holds nothing itself.
constexpr double nearly_none = 1e-4;

/// KL(P || Q) with P the first `size` bins of each sign and the tails on the last of them, Q those bins without tails
/// in the quantiser's levels.
double divergence(const Bins& bins, int64_t size, const Quantiser& quantiser) {
  const auto level_of = [&](int sign, int64_t at) {
    const double centre = (static_cast<double>(at) + 0.5) * bins.width * (sign ? -1 : 1);
    return static_cast<size_t>(std::clamp(std::nearbyint(centre / quantiser.scale) + quantiser.zero, 0.0, 255.0));
  };
  std::array<double, levels> total{}, filled{};
  for (int sign = 0; sign < 2; ++sign)
    for (int64_t at = 0; at < size; ++at)
      if (const double count = bins.sides[sign].count[at]; count > 0) {
        const size_t level = level_of(sign, at);
        total[level] += count, ++filled[level];
      }
  double sum = 0, kept = 0;
  for (size_t level = 0; level < levels; ++level)
    if (total[level] > 0) kept += total[level], sum -= total[level] * std::log(total[level] / filled[level]);
  if (kept <= 0) return INFINITY;
  double all = kept, q_sum = kept;
  for (int sign = 0; sign < 2; ++sign) {
    const Bins::Side& side = bins.sides[sign];
    sum += side.entropy[size];
    const double tail = side.below.back() - side.below[size], last = side.count[size - 1];
    if (tail <= 0) continue;
    all += tail;
    sum += (last + tail) * std::log(last + tail);
    if (last > 0) {
      const size_t level = level_of(sign, size - 1);
      sum -= last * std::log(last) + tail * std::log(total[level] / filled[level]);
    } else {
      sum -= tail * std::log(nearly_none);
      q_sum += nearly_none;
    }
  }
  return sum / all + std::log(q_sum / all);
}

Range within(const Histogram& histogram, double threshold) {
  const auto t = static_cast<float>(threshold);
  return {std::max(histogram.low(), -t), std::min(histogram.high(), t)};
}

double least_divergence(const Histogram& histogram, bool legacy) {
  const Bins bins(histogram, legacy);
  const auto last = static_cast<int64_t>(static_cast<double>(histogram.largest()) / bins.width) + 1;
  double least = INFINITY, best = histogram.largest();
  for (int64_t size = std::min(levels, last); size <= last; ++size) {
    const double threshold = (static_cast<double>(size) + 0.5) * bins.width;
    const double found = divergence(bins, size, Quantiser::of(within(histogram, threshold)));
    if (found < least) least = found, best = threshold;
  }
  return best;
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
