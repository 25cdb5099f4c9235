// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::metrics {

/// Scores of classes as logits: the logarithms of probabilities, other scores as they are.
std::vector<float> logits_of(std::span<const float> scores);

/// How far a classifier is from another class than the exact one gives: the logit of that one's best class above the
/// best of all others.
double margin(std::span<const float> logits, int best);

/// The share of images that are expected to keep their class. Any image's exact margin may meet any image's
/// change of margin, so that few images tell more than the number of classes that did change does.
class Agreement {
 public:
  /// The next image.
  void add(double exact, double other);
  int64_t images() const { return static_cast<int64_t>(margins_.size()); }
  /// 0..1, with image p counted weights[p] times; each once where there are no weights.
  double value(std::span<const uint32_t> weights = {}) const;

 private:
  std::vector<double> margins_, changes_;
};

/// Classes that the exact engine gives slightly moved copies of images. They stand in for labels: what is beside one
/// class and another has copies on both sides, so that a change of class for the worse loses votes, and one for the
/// better wins some.
class Votes {
 public:
  /// The classes of one copy of each image, in order.
  void add(const std::vector<int>& classes) { copies_.push_back(classes); }
  bool empty() const { return copies_.empty(); }
  /// The share of an image's copies that are lost with a change of its class; below 0 where some are won.
  double lost(size_t image, int from, int to) const;

 private:
  std::vector<std::vector<int>> copies_;
};

}  // namespace tenon::metrics
