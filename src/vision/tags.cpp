// SPDX-License-Identifier: Apache-2.0
#include "vision/tags.h"

#include <algorithm>
#include <cmath>

namespace tenon::vision {
namespace {

constexpr size_t most_tags = 1000;  // beyond them an image shows nothing but tags

bool meet(const Box& a, const Box& b) { return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1; }

/// Left top corners to try, best first.
std::vector<std::pair<float, float>> corners(const Tag& tag, float line) {
  const Box& box = tag.box;
  const float left = box.x0 - line / 2, right = box.x1 + line / 2 - tag.width;
  const float above = box.y0 + line / 2 - tag.height, inside = box.y0 - line / 2;
  const float below = box.y1 - line / 2, lowest = box.y1 + line / 2 - tag.height;
  std::vector<std::pair<float, float>> tries = {
      {left, above}, {left, inside}, {right, above},   {right, inside},
      {left, below}, {right, below}, {box.x1, inside}, {box.x0 - tag.width, inside}};
  for (float x = left + tag.width / 2; x < right; x += tag.width / 2) tries.push_back({x, above});
  for (float y = inside + tag.height; y < lowest; y += tag.height) {
    tries.push_back({left, y}), tries.push_back({right, y});
    tries.push_back({box.x1, y}), tries.push_back({box.x0 - tag.width, y});
  }
  for (float x = left + tag.width / 2; x < right; x += tag.width / 2) tries.push_back({x, below});
  return tries;
}

}  // namespace

std::vector<std::optional<Box>> place_tags(std::span<const Tag> tags, float image_width, float image_height,
                                           float line) {
  std::vector<std::optional<Box>> places(tags.size());
  std::vector<Box> taken;
  for (size_t at = 0; at < std::min(tags.size(), most_tags); ++at) {
    const Tag& tag = tags[at];
    const float most_x = image_width - tag.width, most_y = image_height - tag.height;
    // A tag larger than the image stands in its corner, cut off.
    const auto inside = [](float value, float most) { return std::clamp(value, 0.0f, std::max(most, 0.0f)); };
    for (const auto& [x, y] : corners(tag, line)) {
      // What the image's edge would cut off moves inward along the edge; it never leaves its box by more than its
      // height.
      const float left = std::round(inside(x, most_x)), top = std::round(y);
      if (y < 0 || y > std::max(most_y, 0.0f)) continue;
      const Box place{left, top, left + tag.width, top + tag.height};
      if (std::any_of(taken.begin(), taken.end(), [&](const Box& other) { return meet(other, place); })) continue;
      places[at] = place;
      taken.push_back(place);
      break;
    }
  }
  return places;
}

}  // namespace tenon::vision
