// SPDX-License-Identifier: Apache-2.0
#include "metrics/boxes.h"

#include <algorithm>

namespace tenon::metrics {
namespace {

constexpr size_t most_boxes = 100;  // of a class and image
constexpr int recalls = 101;

double weight_of(std::span<const uint32_t> weights, uint32_t image) {
  return weights.empty() ? 1 : weights[image];
}

/// The best true box for a found one: free, or a crowd, which only counts where nothing else fits.
int best_truth(const Box& box, const std::vector<const Truth*>& truths, const std::vector<char>& taken, double least) {
  int best = -1;
  for (size_t at = 0; at < truths.size(); ++at) {
    const bool crowd = truths[at]->crowd;
    if (taken[at] && !crowd) continue;
    if (best >= 0 && !truths[static_cast<size_t>(best)]->crowd && crowd) break;
    const double shared = overlap(box, truths[at]->box, crowd);
    if (shared < least) continue;
    least = shared;
    best = static_cast<int>(at);
  }
  return best;
}

/// Those of a class, the best score first.
std::vector<const Found*> of_class(const std::vector<Found>& found, int class_id) {
  std::vector<const Found*> list;
  for (const Found& one : found)
    if (one.class_id == class_id) list.push_back(&one);
  std::stable_sort(list.begin(), list.end(), [](const Found* a, const Found* b) { return a->score > b->score; });
  return list;
}

/// Those of a class, crowds last.
std::vector<const Truth*> of_class(const std::vector<Truth>& truth, int class_id) {
  std::vector<const Truth*> list;
  for (const Truth& one : truth)
    if (one.class_id == class_id) list.push_back(&one);
  std::stable_sort(list.begin(), list.end(), [](const Truth* a, const Truth* b) { return a->crowd < b->crowd; });
  return list;
}

std::vector<int> classes_of(const std::vector<Found>& found, const std::vector<Truth>& truth) {
  std::vector<int> classes;
  for (const Found& one : found) classes.push_back(one.class_id);
  for (const Truth& one : truth) classes.push_back(one.class_id);
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

}  // namespace

double overlap(const Box& a, const Box& b, bool crowd) {
  const double width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const double height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0) return 0;
  const double shared = width * height;
  return shared / (crowd ? a.area() : a.area() + b.area() - shared);
}

void AveragePrecision::add(const std::vector<Found>& found, const std::vector<Truth>& truth) {
  const auto image = static_cast<uint32_t>(images_++);
  sorted_ = false;
  for (const int class_id : classes_of(found, truth)) {
    std::vector<const Found*> mine = of_class(found, class_id);
    if (mine.size() > most_boxes) mine.resize(most_boxes);
    const std::vector<const Truth*> truths = of_class(truth, class_id);
    Class& all = classes_[class_id];
    const size_t first = all.hits.size();
    for (const Found* one : mine) all.hits.push_back({one->score, image});
    for (int step = 0; step < overlaps; ++step) {
      std::vector<char> taken(truths.size());
      for (size_t at = 0; at < mine.size(); ++at) {
        const int best = best_truth(mine[at]->box, truths, taken, 0.5 + 0.05 * step);
        if (best < 0) continue;
        taken[static_cast<size_t>(best)] = 1;
        Hit& hit = all.hits[first + at];
        const auto bit = static_cast<uint16_t>(1 << step);
        (truths[static_cast<size_t>(best)]->crowd ? hit.ignored : hit.right) |= bit;
      }
    }
    const auto count = std::count_if(truths.begin(), truths.end(), [](const Truth* one) { return !one->crowd; });
    if (count > 0) all.truths.push_back({image, static_cast<uint32_t>(count)});
  }
}

double AveragePrecision::value(const Class& one, std::span<const uint32_t> weights, int overlap, double truths) {
  const int bit = 1 << overlap;
  // The greatest precision at this recall or beyond: recalls are met in order, precisions afterwards from the end.
  std::vector<std::pair<double, double>> curve;
  double right = 0, wrong = 0;
  for (const Hit& hit : one.hits) {
    if (hit.ignored & bit) continue;
    const double weight = weight_of(weights, hit.image);
    if (weight == 0) continue;
    (hit.right & bit ? right : wrong) += weight;
    if (hit.right & bit) curve.push_back({right / truths, right / (right + wrong)});
  }
  for (size_t at = curve.size(); at-- > 1;) curve[at - 1].second = std::max(curve[at - 1].second, curve[at].second);
  double sum = 0;
  size_t at = 0;
  for (int step = 0; step < recalls; ++step) {
    while (at < curve.size() && curve[at].first < step * 0.01) ++at;
    if (at == curve.size()) break;
    sum += curve[at].second;
  }
  return sum / recalls;
}

double AveragePrecision::value(std::span<const uint32_t> weights) {
  if (!sorted_)
    for (auto& [class_id, all] : classes_)
      std::stable_sort(all.hits.begin(), all.hits.end(), [](const Hit& a, const Hit& b) {
        return a.score != b.score ? a.score > b.score : a.image < b.image;
      });
  sorted_ = true;
  double sum = 0;
  int counted = 0;
  for (const auto& [class_id, all] : classes_) {
    double truths = 0;
    for (const auto& [image, count] : all.truths) truths += weight_of(weights, image) * count;
    if (truths == 0) continue;
    ++counted;
    for (int step = 0; step < overlaps; ++step) sum += value(all, weights, step, truths) / overlaps;
  }
  return counted ? sum / counted : 0;
}

}  // namespace tenon::metrics
