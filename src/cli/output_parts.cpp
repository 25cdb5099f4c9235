// SPDX-License-Identifier: Apache-2.0
#include "cli/output_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/vector_kind.h"
#include "metrics/outputs.h"

namespace tenon::cli {
namespace {

/// Whether an output is one vector a sample, or one number.
bool is_vector(const Tensor& output) {
  const Dims& dims = output.dims();
  if (output.dtype() != DType::f32 || dims.rank() == 0 || output.elements() == 0) return false;
  return std::count_if(dims.begin() + 1, dims.end(), [](int64_t size) { return size != 1; }) <= 1;
}

/// Whether a vector has a number for each row of another output, as scores of boxes have.
bool is_column(const Tensor& vector, const std::vector<Tensor>& outputs) {
  const int64_t size = vector.elements() / vector.dims()[0];
  return size > 1 && std::ranges::any_of(outputs, [&](const Tensor& other) {
           return !is_vector(other) && std::count(other.dims().begin() + 1, other.dims().end(), size) > 0;
         });
}

/// Whether numbers, one a sample, are how likely something is: most of them near 0 or 1.
bool are_likelihoods(std::span<const float> numbers) {
  constexpr float half = 0.5f, unsure = 0.3f;
  constexpr double fewest_surely = 0.6;
  int64_t surely = 0;
  for (const float x : numbers) {
    if (!(x >= 0 && x <= 1)) return false;
    surely += std::fabs(x - half) > unsure;
  }
  return static_cast<double>(surely) > fewest_surely * static_cast<double>(numbers.size());
}

/// Kinds of which each output is a part of its own.
bool is_alone(OutputKind kind) {
  return kind == OutputKind::decisions || kind == OutputKind::amounts || kind == OutputKind::scored;
}

/// The logarithm of the odds of yes, within what tells one answer from another.
double log_odds(float number, bool is_logit) {
  constexpr double most = 7;  // 1 to 1100: what networks say of the surer differs much and means nothing
  const double x = number;
  return std::isnan(x) ? x : std::clamp(is_logit ? x : std::log(x / (1 - x)), -most, most);
}

/// Shares of classes, which are 1 together.
bool are_shares_of_one(const std::vector<std::vector<float>>& samples) {
  constexpr double near = 1e-2;
  return std::ranges::all_of(samples, [](const std::vector<float>& one) {
    double sum = 0;
    for (const float x : one) sum += x < 0 ? 2 : x;
    return std::fabs(sum - 1) <= near;
  });
}

}  // namespace

void OutputParts::begin(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  others_kind_ = cli::kind_of(inputs, outputs);
  if (others_kind_ != OutputKind::signal) return;
  std::vector<Tensor> rest;
  for (size_t at = 0; at < outputs.size(); ++at)
    if (is_vector(outputs[at]) && outputs[at].dims()[0] == rows_in(inputs[0]) && !is_column(outputs[at], outputs))
      vectors_.push_back({.output = at});
    else others_.push_back(at), rest.push_back(outputs[at]);
  others_kind_ = cli::kind_of(inputs, rest);
  if (others_kind_ == OutputKind::sequence) others_kind_ = OutputKind::signal;  // texts come alone, heads do not
  if (others_kind_ == OutputKind::signal) scored_.begin(outputs);
}

void OutputParts::see(const std::vector<Tensor>& outputs, int64_t row) {
  scored_.see(outputs, row);
  for (Vector& vector : vectors_)
    if (const Tensor& output = outputs[vector.output]; is_vector(output) && row < output.dims()[0]) {
      const std::span<const float> numbers = row_of(output, row);
      vector.samples.emplace_back(numbers.begin(), numbers.end());
    }
}

OutputKind OutputParts::kind_of(Vector& vector) {
  constexpr size_t fewest_alike = 8;  // logits of classes seldom come with something else
  const std::vector<std::vector<float>>& samples = vector.samples;
  if (samples.empty()) return OutputKind::signal;
  if (samples[0].size() > 1) {
    if (are_shares_of_one(samples)) return OutputKind::decisions;
    if (const auto kind = kind_of_vectors(samples)) return *kind;
    return are_alike(samples, fewest_alike) ? OutputKind::coordinates : OutputKind::signal;
  }
  const auto count = static_cast<double>(samples.size());
  std::vector<float> numbers;
  for (const std::vector<float>& one : samples) numbers.push_back(one[0]);
  double sum = 0, squares = 0;
  for (const double x : numbers) sum += x, squares += x * x;
  vector.variance = (squares - sum * sum / count) / count;
  if (!(vector.variance > 1e-9 * squares)) vector.variance = squares / count;
  const auto [low, high] = std::ranges::minmax(numbers);
  vector.is_logit = low < 0 && high > 0;
  if (vector.is_logit || are_likelihoods(numbers)) return OutputKind::decisions;
  const bool are_counts = std::ranges::all_of(numbers, [](float x) { return x == std::round(x); });
  return are_counts ? OutputKind::signal : OutputKind::amounts;  // of boxes found, for example
}

void OutputParts::recognise() {
  std::vector<Rule> all;
  const std::vector<ScoredOutputs::Output> scored = scored_.recognise();
  for (const ScoredOutputs::Output& output : scored)
    all.push_back({.kind = OutputKind::scored, .outputs = {output.at}, .scored = output});
  const auto is_scored = [&](size_t output) {
    return std::ranges::find(scored, output, &ScoredOutputs::Output::at) != scored.end();
  };
  for (const size_t output : others_)
    if (!is_scored(output)) all.push_back({.kind = others_kind_, .outputs = {output}});
  std::erase_if(vectors_, [&](const Vector& vector) { return is_scored(vector.output); });
  for (Vector& vector : vectors_) {
    const OutputKind kind = kind_of(vector);
    all.push_back({.kind = kind, .outputs = {vector.output}, .variance = vector.variance, .is_logit = vector.is_logit});
    vector.samples.clear();
  }
  std::ranges::sort(all, {}, [](const Rule& rule) { return rule.outputs[0]; });
  for (Rule& rule : all) {
    const auto same = std::ranges::find(rules_, rule.kind, &Rule::kind);
    if (same == rules_.end() || is_alone(rule.kind)) rules_.push_back(std::move(rule));
    else same->outputs.push_back(rule.outputs[0]);
  }
  rules_[0].scale = 1;
}

std::string OutputParts::metric() const {
  return metric_of(kind()) + std::string(rules_.size() > 1 ? ", and as much of the others' limits" : "");
}

void OutputParts::add(const Rule& rule, const Tensor& exact, const Tensor& other, int64_t row, Part& sum) {
  const std::span<const float> wanted = row_of(exact, row), got = row_of(other, row);
  if (rule.kind == OutputKind::amounts) {
    const double off = double{wanted[0]} - got[0], whole = rule.variance > 0 ? rule.variance : 1;
    sum.kept.share.add(std::isnan(off) ? 0 : whole - off * off, whole);
  } else if (wanted.size() > 1) {
    const std::vector<float> before = metrics::logits_of(wanted), after = metrics::logits_of(got);
    const auto best = static_cast<int>(std::ranges::max_element(wanted) - wanted.begin());
    sum.decisions.add(metrics::margin(before, best), metrics::margin(after, best));
  } else {
    const double before = log_odds(wanted[0], rule.is_logit), after = log_odds(got[0], rule.is_logit);
    sum.decisions.add(std::fabs(before), before < 0 ? -after : after);
  }
}

void OutputParts::add(const std::vector<Tensor>& exact, const std::vector<Tensor>& other, int64_t row,
                      Parts& sums) const {
  sums.resize(rules_.size());
  for (size_t at = 0; at < rules_.size(); ++at) {
    const Rule& rule = rules_[at];
    if (rule.kind == OutputKind::scored) {
      ScoredOutputs::add(rule.scored, exact, other, row, sums[at].scored);
      continue;
    }
    std::vector<Tensor> before, after;
    for (const size_t output : rule.outputs) before.push_back(exact[output]), after.push_back(other[output]);
    const bool fits = is_vector(before[0]) && row < before[0].dims()[0] && before[0].dims() == after[0].dims();
    if (is_alone(rule.kind) && fits) add(rule, before[0], after[0], row, sums[at]);
    else if (!is_alone(rule.kind)) add_kept(rule.kind, before, after, row, sums[at].kept);
  }
}

double OutputParts::lost(const Rule& rule, Part& sum, std::span<const uint32_t> weights) {
  if (rule.kind == OutputKind::scored) return sum.scored.lost(weights);
  if (rule.kind == OutputKind::decisions) return 1 - sum.decisions.value(weights);
  const double lost = sum.kept.lost(weights);
  return rule.kind == OutputKind::amounts ? std::sqrt(std::clamp(lost, 0.0, 1.0)) : lost;
}

void OutputParts::limit_by(Parts jitter) {
  std::vector<double> limits;
  for (size_t at = 0; at < rules_.size(); ++at) {
    const Measure measure = measure_of(rules_[at].kind);
    const double points = jitter.empty() ? 0 : 100 * lost(rules_[at], jitter[at], {});
    limits.push_back(std::clamp(measure.times * points, measure.least, measure.most));
    rules_[at].scale = limits[0] / limits[at];
  }
}

double OutputParts::lost(Parts& sums, std::span<const uint32_t> weights) const {
  double most = 0;
  for (size_t at = 0; at < rules_.size(); ++at)
    if (rules_[at].scale > 0) most = std::max(most, rules_[at].scale * lost(rules_[at], sums[at], weights));
  return most;
}

}  // namespace tenon::cli
