// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tenon::metrics {

/// A text as a network with CTC's outputs reads it, and how sure the network is of other texts: Graves et al., 2006,
/// "Connectionist temporal classification", forward variables.
class Reading {
 public:
  /// Scores as [steps, classes], likelihoods or logits, that outlive this; `blank` is a class.
  Reading(std::span<const float> scores, int64_t classes, int64_t blank);

  /// The natural logarithm of the likelihood of a text over all its alignments; minus infinity where it has more
  /// characters than the steps can hold.
  double log_likelihood(std::span<const int64_t> text) const;

  /// What is lost where another engine reads `other` for `text`, in characters, by the likelihoods of this one: each
  /// edit (Levenshtein) counts by how much likelier the text is without it than with it, an edit that this network
  /// finds as likely as not counts nothing, and one that it finds impossible counts one.
  double lost(std::span<const int64_t> text, std::span<const int64_t> other) const;

  /// How far each character that is read is from being another or none, in the logarithm of likelihoods at its best
  /// step, here and in the other reading, where it may stand a step earlier or later.
  std::vector<std::pair<double, double>> margins(const Reading& other) const;

 private:
  int64_t best(int64_t step) const;
  /// The most of a character over these steps.
  double margin(int64_t first, int64_t last, int64_t character) const;
  double likelihood(int64_t step, int64_t character) const;

  std::span<const float> scores_;
  int64_t classes_, blank_, steps_;
  bool are_likelihoods_ = true;
  std::vector<double> log_sums_;  // of each step's exponents, of logits
};

}  // namespace tenon::metrics
