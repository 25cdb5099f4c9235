// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::metrics {

/// How far a classifier is from another class than the exact one gives: the score of that one's best class above the
/// best of all others, in the unit of logits.
double margin(std::span<const float> scores, int best);

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

}  // namespace tenon::metrics
