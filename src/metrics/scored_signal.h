// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::metrics {

/// What is left of numbers that count by the score of their position, as sizes of boxes do: of each channel the squared
/// error as a part of its variance, both weighted by scores and taken over all samples. Few positions of a sample have
/// high scores, so that its own variance says little.
class ScoredSignal {
 public:
  /// A channel of the next sample, a number for each position. Every sample adds the same channels in the same order.
  void add(size_t channel, std::span<const double> weights, std::span<const float> exact, std::span<const float> other,
           int64_t stride);
  /// The next sample has nothing to compare, or nothing that can be compared.
  void skip(bool is_lost);
  /// The share that is lost, 0..1, the mean of the channels, with sample p counted weights[p] times; each once where
  /// there are no weights.
  double lost(std::span<const uint32_t> weights = {}) const;

 private:
  struct Sums {
    double weight = 0, numbers = 0, squares = 0, wrong = 0;
  };
  std::vector<std::vector<Sums>> channels_;  // by channel, by sample
};

}  // namespace tenon::metrics
