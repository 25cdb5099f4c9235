// SPDX-License-Identifier: Apache-2.0
#include "vision/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "vision/font.h"
#include "vision/labels.h"
#include "vision/rotated.h"
#include "vision/tags.h"

namespace tenon::vision {
namespace {

constexpr float pen = 0.75f;  // half the width of a letter's stroke, in font units

Box rounded(const Detection& detection) {
  if (detection.rotated) {
    // The name stands at the topmost corner, of a box that is hardly turned at the left one.
    const auto around = corners(*detection.rotated);
    const auto height = [](const Point& corner) { return corner.y + 0.2f * corner.x; };
    const Point top = *std::min_element(around.begin(), around.end(),
                                        [&](const Point& a, const Point& b) { return height(a) < height(b); });
    return {std::round(top.x), std::round(top.y), std::round(std::max(top.x, detection.box[2])),
            std::round(std::max(top.y, detection.box[3]))};
  }
  return {std::round(detection.box[0]), std::round(detection.box[1]), std::round(detection.box[2]),
          std::round(detection.box[3])};
}

}  // namespace

float draw_text(Image& image, std::string_view text, float x, float y, float height, Rgb colour) {
  std::vector<Stroke> strokes;
  const float unit = height / cap_units, width = text_strokes(text, strokes) * unit, reach = std::max(pen * unit, 0.6f);
  const int left = static_cast<int>(std::floor(x - reach - 1)), top = static_cast<int>(std::floor(y - reach - 1));
  const int columns = static_cast<int>(std::ceil(width + 2 * reach)) + 3;
  const int rows = static_cast<int>(std::ceil((cap_units + descender_units) * unit + 2 * reach)) + 3;
  // Strokes that meet must not darken each other: the mask keeps the strongest.
  std::vector<float> mask(static_cast<size_t>(columns) * static_cast<size_t>(rows));
  for (const Stroke& s : strokes) {
    const Stroke at{x + s.x0 * unit, y + s.y0 * unit, x + s.x1 * unit, y + s.y1 * unit};
    const auto low = [&](float a, float b, int origin) {
      return std::max(static_cast<int>(std::min(a, b) - reach - 1) - origin, 0);
    };
    const auto high = [&](float a, float b, int origin, int limit) {
      return std::min(static_cast<int>(std::max(a, b) + reach + 2) - origin, limit);
    };
    for (int row = low(at.y0, at.y1, top), bottom = high(at.y0, at.y1, top, rows); row < bottom; ++row)
      for (int column = low(at.x0, at.x1, left), right = high(at.x0, at.x1, left, columns); column < right; ++column) {
        const float off = distance(at, static_cast<float>(left + column) + 0.5f, static_cast<float>(top + row) + 0.5f);
        float& coverage = mask[static_cast<size_t>(row) * static_cast<size_t>(columns) + static_cast<size_t>(column)];
        coverage = std::max(coverage, std::clamp(reach + 0.5f - off, 0.0f, 1.0f));
      }
  }
  for (int row = std::max(-top, 0); row < std::min(rows, image.height - top); ++row)
    for (int column = std::max(-left, 0); column < std::min(columns, image.width - left); ++column)
      blend(image, left + column, top + row, colour,
            mask[static_cast<size_t>(row) * static_cast<size_t>(columns) + static_cast<size_t>(column)]);
  return width;
}

void draw_detections(Image& image, std::span<const Detection> detections, const std::vector<std::string>& labels) {
  const auto [width, height, margin] = sizes_for(image);
  std::vector<std::string> texts;
  std::vector<Tag> tags;
  std::vector<Stroke> unused;
  for (const Detection& detection : detections) {
    texts.push_back(fmt::format("{} {:.2f}", label(labels, detection.class_id), detection.score));
    tags.push_back({rounded(detection), std::ceil(text_strokes(texts.back(), unused) * height / cap_units) + 2 * margin,
                    height + 2 * margin});
  }
  const std::vector<std::optional<Box>> plates =
      place_tags(tags, static_cast<float>(image.width), static_cast<float>(image.height), width);
  draw_masks(image, detections);
  for (size_t at = detections.size(); at-- > 0;) {
    const Detection& one = detections[at];
    if (one.rotated) closed_line(image, corners(*one.rotated), width, class_colour(one.class_id));
    else outline(image, rounded(one), width, class_colour(one.class_id));
  }
  draw_key_points(image, detections);
  for (size_t at = detections.size(); at-- > 0;) {
    if (!plates[at]) continue;
    const Rgb colour = class_colour(detections[at].class_id);
    plate(image, *plates[at], width * 0.75f, colour);
    draw_text(image, texts[at], plates[at]->x0 + margin, plates[at]->y0 + margin, height, readable_on(colour));
  }
}

void draw_lines(Image& image, std::span<const std::string> lines) {
  constexpr Rgb dark = {24, 28, 36}, light = {255, 255, 255};
  const auto [line, height, margin] = sizes_for(image);
  const float down = height + 2 * margin;
  std::vector<Stroke> unused;
  float top = margin;
  for (const std::string& text : lines) {
    const float across = std::ceil(text_strokes(text, unused) * height / cap_units) + 2 * margin;
    plate(image, {margin, top, margin + across, top + down}, line * 0.75f, dark);
    draw_text(image, text, 2 * margin, top + margin, height, light);
    top += down + line / 2;
  }
}

}  // namespace tenon::vision
