// SPDX-License-Identifier: Apache-2.0
#include "cli/scored_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "cli/output_kind.h"

namespace tenon::cli {
namespace {

using Output = ScoredOutputs::Output;

constexpr int64_t fewest_positions = 64, fewest_steps = 32, most_channels = 512;

/// A way to read an output, and which positions it has then.
struct Reading {
  Output output;
  std::string place;
};

std::vector<Reading> readings_of(const Tensor& tensor, size_t at) {
  const Dims& dims = tensor.dims();
  const size_t rank = dims.rank();
  if (tensor.dtype() != DType::f32 || rank < 2 || rank > 4 || tensor.elements() == 0) return {};
  std::vector<Reading> found;
  const auto add = [&](int64_t channels, bool is_last, std::span<const int64_t> sides) {
    int64_t positions = 1;
    for (const int64_t side : sides) positions *= side;
    if (channels > most_channels || positions < (rank == 2 ? fewest_steps : fewest_positions)) return;
    found.push_back({{at, at, channels, channels, is_last},
                     fmt::format("{} {}", rank < 4 || is_last ? "rows" : "maps", fmt::join(sides, "x"))});
  };
  const std::vector<int64_t> sizes(dims.begin(), dims.end());
  const std::span<const int64_t> all = sizes;
  if (rank == 2) {
    add(1, true, all.subspan(1));
  } else if (rank == 3) {
    add(sizes[2], true, all.subspan(1, 1)), add(sizes[1], false, all.subspan(2));
  } else {
    add(sizes[1], false, all.subspan(2)), add(sizes[3], true, all.subspan(1, 2));
  }
  return found;
}

/// The numbers of one sample's scores.
struct Scores {
  std::span<const float> numbers;
  const Output& output;

  int64_t positions() const { return std::ssize(numbers) / output.score_channels; }
  float at(int64_t channel, int64_t position) const {
    const int64_t channels = output.score_channels;
    return numbers[static_cast<size_t>(output.is_last ? position * channels + channel
                                                      : channel * positions() + position)];
  }
  /// The most likely of a position's channels.
  float best_at(int64_t position) const {
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t channel = 0; channel < output.score_channels; ++channel)
      if (channel != output.background) best = std::max(best, at(channel, position));
    return best;
  }
};

/// Adds the squares of a sample's differences from its mean, and of those between neighbours.
void add_steps(std::span<const float> numbers, double& squares, double& steps) {
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
  for (size_t at = 0; at < numbers.size(); ++at) {
    squares += (numbers[at] - mean) * (numbers[at] - mean);
    if (at > 0) steps += std::pow(double{numbers[at]} - numbers[at - 1], 2);
  }
}

/// The channel that most positions have where channels are the parts of 1; -1 where they are not.
int64_t background_of(const Scores& scores) {
  constexpr double near = 1e-2;
  const int64_t channels = scores.output.score_channels;
  if (channels < 2) return -1;
  std::vector<double> sums(static_cast<size_t>(channels));
  for (int64_t position = 0; position < scores.positions(); ++position) {
    double sum = 0;
    for (int64_t channel = 0; channel < channels; ++channel) {
      const double share = scores.at(channel, position);
      if (!(share >= 0)) return -1;
      sum += share, sums[static_cast<size_t>(channel)] += share;
    }
    if (std::fabs(sum - 1) > near) return -1;
  }
  return std::ranges::max_element(sums) - sums.begin();
}

}  // namespace

void ScoredOutputs::begin(const std::vector<Tensor>& outputs) {
  std::vector<Reading> readings;
  for (size_t at = 0; at < outputs.size(); ++at)
    for (Reading& one : readings_of(outputs[at], at)) readings.push_back(std::move(one));
  for (size_t at = 0; at < outputs.size(); ++at) {
    const Reading* best = nullptr;
    int64_t most = 0;
    for (const Reading& one : readings) {
      if (one.output.at != at) continue;
      const int64_t others = std::ranges::count_if(readings, [&](const Reading& other) {
        return other.output.at != at && other.place == one.place && other.output.is_last == one.output.is_last;
      });
      if (others > most) best = &one, most = others;
    }
    if (!best) continue;
    all_.push_back({.output = best->output, .place = best->place + (best->output.is_last ? " last" : "")});
    all_.back().output.background = background_of({row_of(outputs[at], 0), best->output});
  }
}

void ScoredOutputs::see(const std::vector<Tensor>& outputs, int64_t row) {
  constexpr float slack = 1e-3f, low = 0.05f, high = 0.5f, low_logit = -3;
  for (Candidate& one : all_) {
    const Tensor& tensor = outputs[one.output.at];
    if (row >= tensor.dims()[0]) continue;
    const Scores scores{row_of(tensor, row), one.output};
    one.is_bounded &= std::ranges::all_of(scores.numbers, [](float x) { return x >= -slack && x <= 1 + slack; });
    one.fewest = one.seen ? std::min(one.fewest, scores.positions()) : scores.positions();
    add_steps(scores.numbers, one.squares, one.steps);
    for (int64_t position = 0; position < scores.positions(); ++position) {
      const float best = scores.best_at(position);
      ++one.seen, one.low += best<low, one.high += best> high;
      one.low_logits += best<low_logit, one.high_logits += best> 0;
    }
  }
}

/// Nearly nothing at most positions, and something at few.
bool ScoredOutputs::is_score(const Candidate& one) {
  constexpr double fewest_low = 0.6, most_high = 0.2;
  if (one.fewest < fewest_positions) return false;
  const auto all = static_cast<double>(one.seen);
  const int64_t low = one.is_bounded ? one.low : one.low_logits, high = one.is_bounded ? one.high : one.high_logits;
  return high > 0 && static_cast<double>(high) <= most_high * all && static_cast<double>(low) >= fewest_low * all;
}

/// One number between 0 and 1 a step that is nearly nothing at some and high at others, and changes slowly: those of
/// classes are in no order.
bool ScoredOutputs::is_sureness(const Candidate& one) {
  constexpr double fewest = 0.05, least_alike = 0.5;  // of the steps; of the correlation of neighbours
  const auto all = static_cast<double>(one.seen);
  if (!one.is_bounded || one.output.channels != 1 || !one.output.is_last) return false;
  if (static_cast<double>(one.low) < fewest * all || static_cast<double>(one.high) < fewest * all) return false;
  return one.steps < 2 * (1 - least_alike) * one.squares;
}

std::vector<Output> ScoredOutputs::recognise() const {
  std::vector<Output> found;
  for (const Candidate& one : all_) {
    const Candidate* best = nullptr;  // the scores that are highest at the fewest positions
    bool has_others = false;
    for (const Candidate& other : all_) {
      if (other.place != one.place) continue;
      if (!says_where(other)) has_others = true;
      else if (!best || is_score(other) > is_score(*best) ||
               (is_score(other) == is_score(*best) && other.high < best->high))
        best = &other;
    }
    if (!best || !has_others) continue;
    Output output = one.output;
    const Candidate& scores = says_where(one) ? one : *best;
    output.scores = scores.output.at, output.is_logit = !scores.is_bounded;
    output.score_channels = scores.output.channels, output.background = scores.output.background;
    found.push_back(output);
  }
  return found;
}

void ScoredOutputs::add(const Output& output, const std::vector<Tensor>& exact, const std::vector<Tensor>& other,
                        int64_t row, metrics::ScoredSignal& sum) {
  for (const size_t at : {output.at, output.scores}) {
    if (row >= exact[at].dims()[0]) return sum.skip(false);
    if (exact[at].dims() != other[at].dims()) return sum.skip(true);
  }
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  const std::span<const float> wanted = row_of(exact[output.at], row), got = row_of(other[output.at], row);
  if (output.at == output.scores) {
    std::vector<float> before(wanted.begin(), wanted.end()), after(got.begin(), got.end());
    if (output.is_logit)
      for (std::vector<float>* const one : {&before, &after}) std::ranges::transform(*one, one->begin(), sigmoid);
    return sum.add(0, std::vector<double>(before.size(), 1), before, after, 1);
  }
  const Scores scores{row_of(exact[output.scores], row), output};
  const int64_t positions = scores.positions();
  if (std::ssize(wanted) != output.channels * positions) return sum.skip(true);
  std::vector<double> weights;
  for (int64_t position = 0; position < positions; ++position) {
    const float best = scores.best_at(position);
    const double score = output.is_logit ? sigmoid(best) : best;
    weights.push_back(score * score);  // or the many that are nothing would outweigh the few that are something
  }
  for (int64_t channel = 0; channel < output.channels; ++channel) {
    const auto first = static_cast<size_t>(output.is_last ? channel : channel * positions);
    sum.add(static_cast<size_t>(channel), weights, wanted.subspan(first), got.subspan(first),
            output.is_last ? output.channels : 1);
  }
}

}  // namespace tenon::cli
