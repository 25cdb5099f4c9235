// SPDX-License-Identifier: Apache-2.0
#include "cli/vector_kind.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "metrics/outputs.h"

namespace tenon::cli {

bool are_embeddings(const std::vector<std::vector<float>>& samples) {
  constexpr size_t fewest = 32;
  constexpr double stands_out = 1.5;  // times as far from the mean as the least number is
  double ratio = 0, low = INFINITY, high = -INFINITY;
  for (const std::vector<float>& one : samples) {
    if (one.size() < fewest) return false;
    const auto [least, most] = std::minmax_element(one.begin(), one.end());
    const double mean = std::accumulate(one.begin(), one.end(), 0.0) / static_cast<double>(one.size());
    ratio += (*most - mean) / std::max(mean - *least, 1e-9);
    low = std::min<double>(low, *least), high = std::max<double>(high, *most);
  }
  if (samples.empty() || high <= 1) return false;  // probabilities, one or many, and their logarithms
  return low >= 0 || ratio < stands_out * static_cast<double>(samples.size());
}

bool are_alike(const std::vector<std::vector<float>>& samples, size_t fewest) {
  constexpr double least_alike = 0.75, stands_out = 1.5;  // of samples' correlation; times as far from the mean
  if (samples.size() < 2 || samples[0].size() < fewest) return false;
  // The correlation of two samples on average: that of the sum of all, less each with itself.
  std::vector<double> sums(samples[0].size());
  double ratio = 0;
  for (const std::vector<float>& one : samples) {
    const auto size = static_cast<double>(one.size());
    const double mean = std::accumulate(one.begin(), one.end(), 0.0) / size;
    double squares = 0;
    for (const float x : one) squares += (x - mean) * (x - mean);
    if (one.size() != sums.size() || !(squares > 0)) return false;
    for (size_t at = 0; at < one.size(); ++at) sums[at] += (one[at] - mean) / std::sqrt(squares);
    const auto [least, most] = std::ranges::minmax(one);
    ratio += (most - mean) / (mean - least);
  }
  const auto count = static_cast<double>(samples.size());
  const double alike =
      (std::inner_product(sums.begin(), sums.end(), sums.begin(), 0.0) - count) / (count * (count - 1));
  return alike > least_alike && ratio < stands_out * count;
}

bool are_coordinates(const std::vector<std::vector<float>>& samples) {
  constexpr size_t fewest = 2, few = 4, fewest_signed = 8;
  constexpr double near_nothing = 0.05, most_near = 0.1;  // of the greatest; of the numbers
  constexpr double even = 0.85, signed_part = 0.01;       // of the entropy of equal shares; of the numbers
  double most = 0, entropy = 0;
  for (const std::vector<float>& one : samples) {
    if (one.size() < fewest) return false;
    most = std::max<double>(most, *std::max_element(one.begin(), one.end()));
    entropy += metrics::entropy(one) / std::log(static_cast<double>(one.size()));
  }
  double low = 0, negative = 0, all = 0;
  for (const std::vector<float>& one : samples)
    for (const float x : one) low += x <= near_nothing * most, negative += x < 0, ++all;
  const bool are_few = all < static_cast<double>(few * samples.size());  // opinion scores, for example
  if (low <= (are_few ? 0 : most_near * all)) return all > 0;
  return all >= fewest_signed * samples.size() && negative > signed_part * all &&
         entropy > even * static_cast<double>(samples.size());
}

bool are_labels(const std::vector<std::vector<float>>& samples) {
  constexpr float likely = 0.5f, unsure = 0.3f;               // so far from there
  constexpr double fewest_apart = 0.05, fewest_surely = 0.6;  // of the samples, and of the numbers
  double apart = 0, surely = 0, all = 0;
  for (const std::vector<float>& one : samples) {
    if (std::any_of(one.begin(), one.end(), [](float x) { return !(x >= 0 && x <= 1); })) return false;
    // A peak on a scale is above one half at several places, too, but those are one beside the other.
    int64_t runs = 0;
    for (size_t at = 0; at < one.size(); ++at) {
      runs += one[at] > likely && (at == 0 || one[at - 1] <= likely);
      surely += std::fabs(one[at] - likely) > unsure, ++all;
    }
    apart += runs > 1;
  }
  return apart > fewest_apart * static_cast<double>(samples.size()) && surely > fewest_surely * all;
}

std::optional<OutputKind> kind_of_vectors(const std::vector<std::vector<float>>& samples) {
  constexpr size_t fewest_alike = 32;  // a few classes may be alike on data of one class
  if (are_labels(samples)) return OutputKind::labels;
  if (are_coordinates(samples) || are_alike(samples, fewest_alike)) return OutputKind::coordinates;
  if (are_embeddings(samples)) return OutputKind::embedding;
  return std::nullopt;
}

}  // namespace tenon::cli
