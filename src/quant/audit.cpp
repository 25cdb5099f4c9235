// SPDX-License-Identifier: Apache-2.0
#include "quant/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/calibrators.h"
#include "quant/weights.h"
#include "quant/structure.h"

namespace tenon::quant {
namespace {

constexpr size_t most_exchanges = 96;
constexpr int most_rescaled = 24;
constexpr double usual_percentile = 99.99;

/// A batch with the first and last of three channels exchanged, and `shift` added to the one and taken from the other.
Tensor exchanged(const Tensor& batch, bool channels_first, int64_t pixels, float shift) {
  Tensor result = batch.copy();
  float* data = result.data<float>();
  for (int64_t image = 0; image < batch.dims()[0]; ++image, data += 3 * pixels)
    for (int64_t at = 0; at < pixels; ++at) {
      float &first = data[channels_first ? at : 3 * at], &last = data[channels_first ? 2 * pixels + at : 3 * at + 2];
      const float old = first;
      first = last + shift, last = old - shift;
    }
  return result;
}

/// Wilcoxon's signed rank test: how many deviations the rank sum of differences is above that of no tendency; 0 for a
/// few differences. Source: F. Wilcoxon, Individual comparisons by ranking methods, 1945, in its normal approximation.
double signed_rank(std::vector<double> differences) {
  constexpr size_t few = 16;
  if (differences.size() < few) return 0;
  std::sort(differences.begin(), differences.end(), [](double a, double b) { return std::fabs(a) < std::fabs(b); });
  double sum = 0;
  for (size_t at = 0; at < differences.size(); ++at) sum += std::copysign(static_cast<double>(at + 1), differences[at]);
  const auto n = static_cast<double>(differences.size());
  return sum / std::sqrt(n * (n + 1) * (2 * n + 1) / 6);
}

Tensor scaled(const Tensor& batch, float factor) {
  Tensor result = batch.copy();
  float* data = result.data<float>();
  std::transform(data, data + result.elements(), data, [&](float value) { return value * factor; });
  return result;
}

/// Of every list of scores where the best one stands.
std::vector<int64_t> best_places(const std::vector<Tensor>& outputs) {
  std::vector<int64_t> places;
  for (const Tensor& output : outputs) {
    if (output.dtype() != DType::f32 || output.dims().rank() != 2 || output.dims()[1] < 2) continue;
    const float* row = output.data<float>();
    for (int64_t n = 0; n < output.dims()[0]; ++n, row += output.dims()[1])
      places.push_back(std::max_element(row, row + output.dims()[1]) - row);
  }
  return places;
}

/// How large a first convolution's sums are beside its biases, both by root of the mean square, for images of this
/// deviation. Trained on inputs of one scale, that is between 0.3 and 30; on inputs of another it moves with the scale.
double scale_beside_bias(const ir::Graph& graph, double deviation) {
  for (const ir::Node& node : graph.nodes) {
    if (!node.alive || !is_convolution(node) || node.inputs.size() < 3) continue;
    if (std::find(graph.inputs.begin(), graph.inputs.end(), node.inputs[0]) == graph.inputs.end()) continue;
    const Tensor *weights = graph.constant(node.inputs[1]), *bias = graph.constant(node.inputs[2]);
    if (!weights || !bias || weights->dtype() != DType::f32 || bias->dtype() != DType::f32) continue;
    double sums = 0, biases = 0;
    for (const float weight : weights->values<float>()) sums += static_cast<double>(weight) * weight;
    for (const float term : bias->values<float>()) biases += static_cast<double>(term) * term;
    return biases > 0 ? deviation * std::sqrt(sums / biases) : 0;
  }
  return 0;
}

}  // namespace

Auditor::Auditor(const ir::Graph& graph, size_t groups) {
  state_.ends.resize(groups);
  if (graph.inputs.size() != 1) return;
  const ir::Value& input = graph.value(graph.inputs[0]);
  if (input.dtype != DType::f32 || !input.shape || input.shape->size() != 4 || !ir::is_constant(*input.shape)) return;
  const auto size = [&](size_t axis) { return (*input.shape)[axis].value(); };
  const auto fits = [](int64_t channels) { return channels == 1 || channels == 3; };
  channels_first_ = fits(size(1));
  channels_ = size(channels_first_ ? 1 : 3);
  height_ = size(channels_first_ ? 2 : 1);
  width_ = size(channels_first_ ? 3 : 2);
  images_ = fits(channels_) && height_ > 0 && width_ > 0;
}

void Auditor::note(const DataLoader::Batch& batch, const std::vector<Tensor>& outputs,
                   const std::vector<Histogram>& histograms, const Run& run) {
  for (size_t at = 0; at < state_.ends.size(); ++at) {
    Ends& ends = state_.ends[at];
    if (samples_ == 0 || histograms[at].low() < ends.low)
      ends.low = histograms[at].low(), ends.low_from = batch.label();
    if (samples_ == 0 || histograms[at].high() > ends.high)
      ends.high = histograms[at].high(), ends.high_from = batch.label();
  }
  const int64_t before = samples_;
  samples_ += static_cast<int64_t>(batch.names.size());
  if (std::bit_width(static_cast<uint64_t>(before)) != std::bit_width(static_cast<uint64_t>(samples_)))
    state_.snapshots.push_back(snapshot(histograms));
  if (images_) look(batch);
  if (run && channels_ == 3 && state_.gains.size() < most_exchanges) exchange(batch, outputs, run);
  if (run && state_.rescaled < most_rescaled) rescale(batch, outputs, run);
}

void Auditor::pass_over(const DataLoader::Batch& batch) {
  samples_ += static_cast<int64_t>(batch.names.size());
  if (images_) look(batch);
}

void Auditor::finish(const std::vector<Histogram>& histograms) {
  if (state_.snapshots.empty() || state_.snapshots.back().samples != samples_)
    state_.snapshots.push_back(snapshot(histograms));
}

Auditor::Snapshot Auditor::snapshot(const std::vector<Histogram>& histograms) const {
  Snapshot now{samples_, {}};
  for (const Histogram& histogram : histograms) now.ranges.push_back(percentile_threshold(histogram, usual_percentile));
  return now;
}

void Auditor::look(const DataLoader::Batch& batch) {
  const int64_t elements = channels_ * height_ * width_;
  for (size_t at = 0; at < batch.names.size(); ++at) {
    seen_.push_back(image_of(batch.inputs[0].data<float>() + static_cast<int64_t>(at) * elements, channels_, height_,
                               width_, channels_first_));
    seen_.back().name = batch.names[at];
  }
}

void Auditor::exchange(const DataLoader::Batch& batch, const std::vector<Tensor>& outputs, const Run& run) {
  // Where a mean was taken from each channel it has to be exchanged, too: what is left of it is the other's.
  double apart = 0;
  bool centred = false;
  for (const Image& image : seen_)
    apart += (image.first - image.last) / static_cast<double>(seen_.size()), centred = centred || image.low < 0;
  const float shift = centred ? static_cast<float>(apart / 2) : 0;
  const std::vector<Tensor> others = run({exchanged(batch.inputs[0], channels_first_, height_ * width_, shift)});
  const int64_t images = batch.inputs[0].dims()[0];
  for (int64_t image = 0; image < std::ssize(batch.names); ++image) {
    const double gain = certainty(others, image, images) - certainty(outputs, image, images);
    if (gain != 0) state_.gains.push_back(gain);
  }
}

void Auditor::rescale(const DataLoader::Batch& batch, const std::vector<Tensor>& outputs, const Run& run) {
  const std::vector<int64_t> given = best_places(outputs);
  if (given.empty()) return;
  float high = 0;
  for (size_t at = 0; at < batch.names.size(); ++at) high = std::max(high, seen_[seen_.size() - 1 - at].high);
  const std::vector<int64_t> other = best_places(run({scaled(batch.inputs[0], high > 1.5f ? 1.f / 255 : 255.f)}));
  for (size_t at = 0; at < given.size(); ++at) {
    ++state_.rescaled;
    state_.same_best += given[at] == other[at];
  }
}

/// A model without biases to speak of finds the same classes whatever the scale: which one it was trained on cannot be
/// told, and does not matter.
bool Auditor::is_indifferent_to_scale() const {
  constexpr int least_rescaled = 4;
  return state_.rescaled >= least_rescaled && state_.same_best * 10 >= state_.rescaled * 9;
}

std::vector<plan::Suspicion> Auditor::suspicions(const ir::Graph& graph) const {
  std::vector<plan::Suspicion> found = suspicions_of(seen_);
  for (plan::Suspicion& suspicion : preprocessing(graph, !found.empty())) found.push_back(std::move(suspicion));
  return found;
}

std::vector<plan::Suspicion> Auditor::preprocessing(const ir::Graph& graph) const {
  const bool odd =
      std::any_of(seen_.begin(), seen_.end(), [](const Image& one) { return !suspicions_of({one}).empty(); });
  return preprocessing(graph, odd);
}

std::vector<plan::Suspicion> Auditor::preprocessing(const ir::Graph& graph, bool images_are_odd) const {
  constexpr double too_large = 100, too_small = 0.045;
  constexpr int least_tries = 6;
  constexpr double sure_gain = 3;  // deviations: one set in a thousand by chance
  std::vector<plan::Suspicion> found;
  if (seen_.empty()) return found;
  double deviation = 0;
  int blue = 0;
  for (const Image& image : seen_) {
    deviation += image.deviation / static_cast<double>(seen_.size());
    blue += image.last > image.first;
  }
  const auto tried = std::ssize(state_.gains),
             surer = std::count_if(state_.gains.begin(), state_.gains.end(), [](double gain) { return gain > 0; });
  const double scale = scale_beside_bias(graph, deviation);
  const auto [least, most] = std::minmax_element(seen_.begin(), seen_.end(),
                                                 [](const Image& a, const Image& b) { return a.high < b.high; });
  // Who takes a mean from bytes means bytes.
  const bool whole = std::all_of(seen_.begin(), seen_.end(), [](const Image& one) { return one.low >= 0; });
  const bool is_odd = (whole && scale > too_large) || (scale > 0 && scale < too_small && !images_are_odd);
  if (is_odd && !is_indifferent_to_scale())
    found.push_back({fmt::format("the images' values look too {} for this model", scale > 1 ? "large" : "small"),
                     fmt::format("they reach {:.3g}, and give the first convolution sums {:.3g} times its biases",
                                 static_cast<double>(most->high), scale),
                     scale > 1 ? "scale by 1/255 (0..1 for 0..255): --preprocess …,scale=1/255"
                               : "leave out the scale by 1/255 (0..255 for 0..1): --preprocess …,scale=1"});
  // Images of one scene are one observation, however many there are.
  else if (likeness(seen_) <= same_scene &&
           (signed_rank(state_.gains) > sure_gain ||
            (tried >= least_tries && surer * 5 >= tried * 3 && blue * 2 > static_cast<int>(seen_.size()))))
    found.push_back({"red and blue look exchanged",
                     fmt::format("the model is more certain of {} of {} images with them exchanged, and {} of {} "
                                 "images have more of the last channel than of the first",
                                 surer, tried, blue, seen_.size()),
                     "give the other order: --preprocess …,colour=bgr for rgb, or the other way round"});
  return found;
}

std::vector<plan::Coverage> Auditor::coverage() const {
  std::vector<plan::Coverage> points;
  if (state_.snapshots.empty()) return points;
  const std::vector<double>& last = state_.snapshots.back().ranges;
  for (const Snapshot& snapshot : state_.snapshots) {
    std::vector<double> changes;
    for (size_t at = 0; at < last.size(); ++at)
      if (last[at] > 0) changes.push_back(std::fabs(snapshot.ranges[at] / last[at] - 1));
    if (changes.empty()) continue;
    const auto middle = changes.begin() + static_cast<ptrdiff_t>(changes.size() / 2);
    std::nth_element(changes.begin(), middle, changes.end());
    points.push_back({snapshot.samples, *middle});
  }
  return points;
}

}  // namespace tenon::quant
