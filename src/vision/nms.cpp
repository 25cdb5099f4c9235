// SPDX-License-Identifier: Apache-2.0
#include "vision/nms.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "vision/rotated.h"

namespace tenon::vision {
namespace {

// Bounds the quadratic part; the weakest candidates beyond it are dropped.
constexpr size_t max_candidates = 30000;

float area(const Detection& d) { return std::max(d.box[2] - d.box[0], 0.0f) * std::max(d.box[3] - d.box[1], 0.0f); }

float overlap(const Detection& a, const Detection& b) {
  if (a.rotated && b.rotated) return probabilistic_iou(*a.rotated, *b.rotated);
  const float width = std::min(a.box[2], b.box[2]) - std::max(a.box[0], b.box[0]);
  const float height = std::min(a.box[3], b.box[3]) - std::max(a.box[1], b.box[1]);
  if (width <= 0 || height <= 0) return 0;
  const float shared = width * height;
  return shared / (area(a) + area(b) - shared);
}

}  // namespace

std::vector<Detection> nms(std::vector<Detection> candidates, float iou, int max_kept, bool agnostic) {
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return candidates[a].score > candidates[b].score; });
  if (order.size() > max_candidates) order.resize(max_candidates);
  std::vector<Detection> kept;
  for (const size_t at : order) {
    Detection& candidate = candidates[at];
    if (kept.size() >= static_cast<size_t>(std::max(max_kept, 0))) break;
    const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Detection& better) {
      return (agnostic || better.class_id == candidate.class_id) && overlap(better, candidate) > iou;
    });
    if (!hidden) kept.push_back(std::move(candidate));
  }
  return kept;
}

}  // namespace tenon::vision
