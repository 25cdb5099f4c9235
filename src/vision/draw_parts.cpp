// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "vision/draw.h"
#include "vision/mask.h"

namespace tenon::vision {
namespace {

constexpr float tint = 0.45f;         // of a mask's colour over the image
constexpr float least_score = 0.25f;  // of a key point that is drawn
constexpr Rgb left_side = {0, 190, 255}, right_side = {255, 145, 30}, middle = {120, 225, 90}, dark = {24, 28, 36};

// The key points of COCO's persons: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles, the left ones
// odd.
constexpr size_t body_points = 17;
struct Limb {
  size_t from, to;
};
constexpr Limb limbs[] = {{15, 13}, {13, 11}, {16, 14}, {14, 12}, {11, 12}, {5, 11}, {6, 12}, {5, 6}, {5, 7}, {6, 8},
                          {7, 9},   {8, 10},  {1, 2},   {0, 1},   {0, 2},   {1, 3},  {2, 4},  {3, 5}, {4, 6}};

Rgb side_of(size_t point) { return point == 0 ? middle : point % 2 == 1 ? left_side : right_side; }

}  // namespace

void draw_masks(Image& image, std::span<const Detection> detections) {
  const float width = std::max(1.5f, sizes_for(image).line * 0.6f);
  for (size_t at = detections.size(); at-- > 0;) {
    const Mask& mask = detections[at].mask;
    const Rgb colour = class_colour(detections[at].class_id);
    const int left = std::max(mask.x0, 0), right = std::min(mask.x0 + mask.width, image.width);
    for (int y = std::max(mask.y0, 0); y < std::min(mask.y0 + mask.height, image.height); ++y)
      for (int x = left; x < right; ++x)
        if (mask.at(x, y)) blend(image, x, y, colour, tint);
    for (const Polygon& edge : outlines(mask)) closed_line(image, edge, width, colour);
  }
}

void draw_key_points(Image& image, std::span<const Detection> detections) {
  const float width = sizes_for(image).line, radius = width * 1.2f;
  for (size_t at = detections.size(); at-- > 0;) {
    const std::vector<KeyPoint>& points = detections[at].points;
    const bool body = points.size() == body_points;
    if (body)
      for (const auto& [from, to] : limbs) {
        const KeyPoint &a = points[from], &b = points[to];
        if (a.score < least_score || b.score < least_score) continue;
        const Rgb colour = side_of(from) == side_of(to) ? side_of(from) : middle;
        line(image, {a.x, a.y, b.x, b.y}, width, colour);
      }
    for (size_t point = 0; point < points.size(); ++point) {
      const KeyPoint& one = points[point];
      if (one.score < least_score) continue;
      disc(image, {one.x, one.y}, radius + std::max(1.0f, width * 0.35f), dark);
      disc(image, {one.x, one.y}, radius, body ? side_of(point) : class_colour(static_cast<int>(point)));
    }
  }
}

void draw_legend(Image& image, std::span<const LegendLine> lines) {
  constexpr float opacity = 0.75f;
  constexpr Rgb light = {255, 255, 255};
  const auto [unused_line, height, margin] = sizes_for(image);
  const float down = std::round(height * 1.9f), swatch = height * 1.3f;
  const auto fitting = static_cast<size_t>(std::max(0.0f, (static_cast<float>(image.height) - 4 * margin) / down));
  const size_t count = std::min(lines.size(), fitting);
  if (count == 0) return;
  std::vector<Stroke> unused;
  float widest = 0;
  for (const LegendLine& one : lines.first(count))
    widest = std::max(widest, text_strokes(one.text, unused) * height / cap_units);
  const float across = swatch + widest + 3 * margin;
  plate(image, {margin, margin, margin + across, 2 * margin + static_cast<float>(count) * down + margin / 2},
        margin / 2, dark, opacity);
  float top = 2 * margin;
  for (const LegendLine& one : lines.first(count)) {
    plate(image, {2 * margin, top, 2 * margin + swatch, top + swatch}, swatch / 5, one.colour);
    draw_text(image, one.text, 3 * margin + swatch, top + (swatch - height) / 2, height, light);
    top += down;
  }
}

}  // namespace tenon::vision
