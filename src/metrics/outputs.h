// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tenon::metrics {

/// How alike the answers of two engines are where these are neither boxes nor one class.

/// The cosine of the angle between two vectors; 1 for two of nothing, 0 for one of nothing or with what is no number.
double cosine(std::span<const float> a, std::span<const float> b);

/// Numbers as [outer, classes, inner]: how many of the outer x inner positions have their greatest class where the
/// others have theirs, the first of equals.
int64_t same_best(std::span<const float> a, std::span<const float> b, int64_t classes, int64_t inner);

/// How many numbers of two maps are above a threshold in the first, in the second and in both.
struct Overlap {
  int64_t first = 0, second = 0, both = 0;

  int64_t either() const { return first + second - both; }
};
Overlap overlap(std::span<const float> a, std::span<const float> b, float threshold);

/// Numbers as [steps, classes]: the greatest class of each step, equal ones that follow each other as one.
std::vector<int64_t> best_in_turn(std::span<const float> scores, int64_t classes);

/// What stands for no character between those that CTC reads: the first class or the last, where it is the best of a
/// third of all steps; -1 where neither is.
int64_t blank_of(std::span<const float> scores, int64_t classes);

/// The fewest insertions, deletions and exchanges that make one sequence of the other (Levenshtein's distance).
int64_t edits(std::span<const int64_t> from, std::span<const int64_t> to);

/// Kullback and Leibler's divergence of softmax(other) from softmax(exact), in nats.
double divergence(std::span<const float> exact, std::span<const float> other);

/// Of the shares that softmax makes of logits, in nats.
double entropy(std::span<const float> logits);

}  // namespace tenon::metrics
