// SPDX-License-Identifier: Apache-2.0
#include "metrics/outputs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tenon::metrics {
namespace {

int64_t best_of(const float* scores, int64_t classes, int64_t inner) {
  int64_t best = 0;
  for (int64_t one = 1; one < classes; ++one)
    if (scores[one * inner] > scores[best * inner]) best = one;
  return best;
}

double log_of_sum(std::span<const float> logits, float most) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x} - most);
  return most + std::log(sum);
}

}  // namespace

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0, of_a = 0, of_b = 0;
  for (size_t at = 0; at < a.size(); ++at) {
    product += double{a[at]} * b[at];
    of_a += double{a[at]} * a[at];
    of_b += double{b[at]} * b[at];
  }
  if (of_a == 0 || of_b == 0) return of_a == of_b ? 1 : 0;
  const double found = product / std::sqrt(of_a * of_b);
  return std::isnan(found) ? 0 : found;
}

int64_t same_best(std::span<const float> a, std::span<const float> b, int64_t classes, int64_t inner) {
  const auto outer = static_cast<int64_t>(a.size()) / (classes * inner);
  int64_t same = 0;
  for (int64_t out = 0; out < outer; ++out)
    for (int64_t in = 0; in < inner; ++in) {
      const int64_t at = out * classes * inner + in;
      same += best_of(a.data() + at, classes, inner) == best_of(b.data() + at, classes, inner);
    }
  return same;
}

Overlap overlap(std::span<const float> a, std::span<const float> b, float threshold) {
  Overlap counts;
  for (size_t at = 0; at < a.size(); ++at) {
    const bool one = a[at] > threshold, other = b[at] > threshold;
    counts.first += one, counts.second += other, counts.both += one && other;
  }
  return counts;
}

int64_t blank_of(std::span<const float> scores, int64_t classes) {
  constexpr int64_t least = 3;  // one of so many steps
  const int64_t last = classes - 1, steps = std::ssize(scores) / std::max<int64_t>(classes, 1);
  int64_t firsts = 0, lasts = 0;
  for (int64_t at = 0; at < steps; ++at) {
    const int64_t best = best_of(scores.data() + at * classes, classes, 1);
    firsts += best == 0, lasts += best == last;
  }
  if (std::max(firsts, lasts) * least < steps || steps == 0) return -1;
  return firsts >= lasts ? 0 : last;
}

std::vector<int64_t> best_in_turn(std::span<const float> scores, int64_t classes) {
  std::vector<int64_t> found;
  for (int64_t at = 0; at < std::ssize(scores); at += classes)
    if (const int64_t best = best_of(scores.data() + at, classes, 1); found.empty() || found.back() != best)
      found.push_back(best);
  return found;
}

int64_t edits(std::span<const int64_t> from, std::span<const int64_t> to) {
  std::vector<int64_t> row(to.size() + 1);  // of the beginning of `from` to each beginning of `to`
  for (size_t at = 0; at < row.size(); ++at) row[at] = static_cast<int64_t>(at);
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t diagonal = std::exchange(row[0], static_cast<int64_t>(i) + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const int64_t exchanged = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({exchanged, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

double divergence(std::span<const float> exact, std::span<const float> other) {
  if (exact.empty()) return 0;
  const double all = log_of_sum(exact, *std::max_element(exact.begin(), exact.end()));
  const double others = log_of_sum(other, *std::max_element(other.begin(), other.end()));
  double sum = 0;
  for (size_t at = 0; at < exact.size(); ++at) {
    const double log_p = exact[at] - all, p = std::exp(log_p);
    if (p > 0) sum += p * (log_p - (other[at] - others));
  }
  return std::max(sum, 0.0);
}

double entropy(std::span<const float> logits) {
  if (logits.empty()) return 0;
  const double all = log_of_sum(logits, *std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - all) * (all - x);
  return sum;
}

}  // namespace tenon::metrics
