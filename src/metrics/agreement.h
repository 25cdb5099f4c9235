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
  /// The next image. A class is lost where the other margin is no number.
  void add(double exact, double other);
  int64_t images() const { return static_cast<int64_t>(margins_.size()); }
  /// 0..1, with image p counted weights[p] times; each once where there are no weights.
  double value(std::span<const uint32_t> weights = {}) const;

 private:
  std::vector<double> margins_, changes_;
};

/// The share of characters that are expected to be lost, of several samples. As with Agreement any margin may meet any
/// change, but each counts by how sure the exact engine is of it: by the difference of its two likelihoods as a part of
/// their sum. What is as likely as something else is no loss, whichever an engine takes.
class SureAgreement {
 public:
  /// A character of a sample, by its margins.
  void add(size_t sample, double exact, double other);
  /// 0..1, with sample p counted weights[p] times; each once where there are no weights. 0 without characters.
  double lost(std::span<const uint32_t> weights = {});

 private:
  struct One {
    size_t sample;
    double number;  // a margin, or a change of one
  };
  std::vector<One> margins_, changes_;
  bool sorted_ = true;
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
