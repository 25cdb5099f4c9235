// SPDX-License-Identifier: Apache-2.0
#include "metrics/reading.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "metrics/outputs.h"

namespace tenon::metrics {
namespace {

struct Edit {
  enum class Kind { exchange, removal, insertion } kind;
  size_t at;          // in the text; before this character for an insertion
  int64_t character;  // that comes in
};

/// The fewest that make one text of the other, from the last one to the first.
std::vector<Edit> edits_between(std::span<const int64_t> from, std::span<const int64_t> to) {
  const size_t width = to.size() + 1;
  std::vector<int32_t> fewest((from.size() + 1) * width);
  for (size_t i = 0; i <= from.size(); ++i)
    for (size_t j = 0; j <= to.size(); ++j) {
      int32_t& here = fewest[i * width + j];
      if (i == 0 || j == 0) {
        here = static_cast<int32_t>(i + j);
        continue;
      }
      const int32_t exchanged = fewest[(i - 1) * width + j - 1] + (from[i - 1] != to[j - 1]);
      here = std::min({exchanged, fewest[(i - 1) * width + j] + 1, fewest[i * width + j - 1] + 1});
    }
  std::vector<Edit> edits;
  for (size_t i = from.size(), j = to.size(); i > 0 || j > 0;) {
    const int32_t here = fewest[i * width + j];
    const bool differ = i > 0 && j > 0 && from[i - 1] != to[j - 1];
    if (i > 0 && j > 0 && here == fewest[(i - 1) * width + j - 1] + differ) {
      --i, --j;
      if (differ) edits.push_back({Edit::Kind::exchange, i, to[j]});
    } else if (i > 0 && here == fewest[(i - 1) * width + j] + 1) {
      edits.push_back({Edit::Kind::removal, --i, 0});
    } else {
      edits.push_back({Edit::Kind::insertion, i, to[--j]});
    }
  }
  return edits;
}

std::vector<int64_t> with(std::span<const int64_t> text, const Edit& edit) {
  std::vector<int64_t> result(text.begin(), text.end());
  const auto place = result.begin() + static_cast<std::ptrdiff_t>(edit.at);
  if (edit.kind == Edit::Kind::exchange) *place = edit.character;
  else if (edit.kind == Edit::Kind::removal) result.erase(place);
  else result.insert(place, edit.character);
  return result;
}

}  // namespace

Reading::Reading(std::span<const float> scores, int64_t classes, int64_t blank)
    : scores_(scores), classes_(classes), blank_(blank), steps_(std::ssize(scores) / classes) {
  constexpr double near = 1e-2;
  const auto row = [&](int64_t step) {
    return scores.subspan(static_cast<size_t>(step * classes), static_cast<size_t>(classes));
  };
  for (int64_t step = 0; step < steps_ && are_likelihoods_; ++step) {
    double sum = 0;
    for (const float one : row(step)) sum += one < 0 ? 2 : one;  // none is below 0
    are_likelihoods_ = std::fabs(sum - 1) <= near;
  }
  if (are_likelihoods_) return;
  for (int64_t step = 0; step < steps_; ++step) {
    const float most = *std::ranges::max_element(row(step));
    double sum = 0;
    for (const float one : row(step)) sum += std::exp(double{one} - most);
    log_sums_.push_back(most + std::log(sum));
  }
}

double Reading::likelihood(int64_t step, int64_t character) const {
  constexpr double least = 1e-9;  // what networks say of the impossible differs much and means nothing
  const double score = scores_[static_cast<size_t>(step * classes_ + character)];
  return std::max(least, are_likelihoods_ ? score : std::exp(score - log_sums_[static_cast<size_t>(step)]));
}

double Reading::log_likelihood(std::span<const int64_t> text) const {
  // States are blanks, with the characters between them.
  const size_t states = 2 * text.size() + 1;
  const auto label = [&](size_t state) { return state % 2 == 0 ? blank_ : text[state / 2]; };
  std::vector<double> ways(states);
  double log_of_all = 0;
  for (int64_t step = 0; step < steps_; ++step) {
    const double blank = likelihood(step, blank_);
    double sum = 0;
    for (size_t state = states; state-- > 0;) {
      double from = step > 0 ? ways[state] : state < 2;
      if (step > 0 && state > 0) from += ways[state - 1];
      if (step > 0 && state > 1 && state % 2 == 1 && label(state) != label(state - 2)) from += ways[state - 2];
      ways[state] = from == 0 ? 0 : from * (state % 2 == 0 ? blank : likelihood(step, label(state)));
      sum += ways[state];
    }
    for (double& way : ways) way /= sum;
    log_of_all += std::log(sum);
  }
  return log_of_all + std::log(ways[states - 1] + (states > 1 ? ways[states - 2] : 0));
}

double Reading::lost(std::span<const int64_t> text, std::span<const int64_t> other) const {
  constexpr size_t most_weighed = 32;         // edits: a text with more is another one
  constexpr int64_t most_states = 1'000'000;  // of all steps, which bounds the time
  if (std::ranges::equal(text, other)) return 0;
  const auto all = static_cast<double>(edits(text, other));
  const int64_t length = std::max(std::ssize(text), std::ssize(other));
  if (all > most_weighed || (2 * length + 1) * std::max(steps_, length) > most_states) return all;
  const double own = log_likelihood(text);
  double lost = 0;
  for (const Edit& edit : edits_between(text, other)) {
    const double odds = own - log_likelihood(with(text, edit));
    // The difference of the two likelihoods, as a part of their sum.
    lost += std::isnan(odds) ? 1 : std::max(0.0, std::tanh(odds / 2));
  }
  return lost;
}

int64_t Reading::best(int64_t step) const {
  const float* row = scores_.data() + step * classes_;
  return std::max_element(row, row + classes_) - row;
}

double Reading::margin(int64_t first, int64_t last, int64_t character) const {
  double most = -std::numeric_limits<double>::infinity();
  for (int64_t step = std::max<int64_t>(first, 0); step <= std::min(last, steps_ - 1); ++step) {
    const float* row = scores_.data() + step * classes_;
    int64_t other = character == 0 ? 1 : 0;
    for (int64_t one = 0; one < classes_; ++one)
      if (one != character && row[one] > row[other]) other = one;
    most = std::max(most, std::log(likelihood(step, character) / likelihood(step, other)));
  }
  return most;
}

std::vector<std::pair<double, double>> Reading::margins(const Reading& other) const {
  std::vector<std::pair<double, double>> found;
  for (int64_t first = 0, end = 0; first < steps_; first = end) {
    const int64_t character = best(first);
    for (end = first + 1; end < steps_ && best(end) == character;) ++end;
    if (character != blank_)
      found.push_back({margin(first, end - 1, character), other.margin(first - 1, end, character)});
  }
  return found;
}

}  // namespace tenon::metrics
