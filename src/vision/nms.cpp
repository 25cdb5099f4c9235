// SPDX-License-Identifier: Apache-2.0
#include "vision/nms.h"

#include <algorithm>

namespace tenon::vision {
namespace {

// Bounds the quadratic part; the weakest candidates beyond it are dropped.
constexpr size_t max_candidates = 30000;

float area(const Detection& d) { return std::max(d.box[2] - d.box[0], 0.0f) * std::max(d.box[3] - d.box[1], 0.0f); }

float overlap(const Detection& a, const Detection& b) {
  const float width = std::min(a.box[2], b.box[2]) - std::max(a.box[0], b.box[0]);
  const float height = std::min(a.box[3], b.box[3]) - std::max(a.box[1], b.box[1]);
  if (width <= 0 || height <= 0) return 0;
  const float shared = width * height;
  return shared / (area(a) + area(b) - shared);
}

}  // namespace

std::vector<Detection> suppress(std::vector<Detection> candidates, float iou, int max_kept, bool agnostic) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  if (candidates.size() > max_candidates) candidates.resize(max_candidates);
  std::vector<Detection> kept;
  for (const Detection& candidate : candidates) {
    if (kept.size() >= static_cast<size_t>(std::max(max_kept, 0))) break;
    const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Detection& better) {
      return (agnostic || better.class_id == candidate.class_id) && overlap(better, candidate) > iou;
    });
    if (!hidden) kept.push_back(candidate);
  }
  return kept;
}

}  // namespace tenon::vision
