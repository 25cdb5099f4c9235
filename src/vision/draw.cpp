// SPDX-License-Identifier: Apache-2.0
#include "vision/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "vision/font.h"
#include "vision/labels.h"
#include "vision/tags.h"

namespace tenon::vision {
namespace {

constexpr float pen = 0.75f;  // half the width of a letter's stroke, in font units

void blend(Image& image, int x, int y, Rgb colour, float coverage) {
  uint8_t* pixel = image.row(y) + static_cast<size_t>(x) * 3;
  for (size_t channel = 0; channel < 3; ++channel)
    pixel[channel] = static_cast<uint8_t>(std::lrint(pixel[channel] + (colour[channel] - pixel[channel]) * coverage));
}

/// Distance of a point to a rectangle with round corners, negative inside.
float distance(const Box& box, float radius, float x, float y) {
  const float across = std::abs(x - (box.x0 + box.x1) / 2) - (box.x1 - box.x0) / 2 + radius;
  const float down = std::abs(y - (box.y0 + box.y1) / 2) - (box.y1 - box.y0) / 2 + radius;
  return std::hypot(std::max(across, 0.0f), std::max(down, 0.0f)) + std::min(std::max(across, down), 0.0f) - radius;
}

/// Calls paint(x, y) for the image's pixels within `reach` of the box, leaving out those deeper inside than `depth`.
template <class Paint>
void around(const Image& image, const Box& box, float reach, float depth, Paint paint) {
  const auto column = [&](float x) { return static_cast<int>(std::clamp(x, 0.0f, static_cast<float>(image.width))); };
  const auto row = [&](float y) { return static_cast<int>(std::clamp(y, 0.0f, static_cast<float>(image.height))); };
  const int left = column(box.x0 - reach), right = column(box.x1 + reach + 1);
  const int inner_left = column(box.x0 + depth), inner_right = std::max(column(box.x1 - depth), inner_left);
  for (int y = row(box.y0 - reach), bottom = row(box.y1 + reach + 1); y < bottom; ++y) {
    const bool middle = static_cast<float>(y) > box.y0 + depth && static_cast<float>(y) < box.y1 - depth;
    for (int x = left; x < right; ++x) {
      if (middle && x == inner_left) x = inner_right;
      if (x < right) paint(x, y);
    }
  }
}

void outline(Image& image, const Box& box, float width, Rgb colour) {
  const float radius = std::min({width * 1.5f, (box.x1 - box.x0) / 2, (box.y1 - box.y0) / 2});
  around(image, box, width, width + radius + 1, [&](int x, int y) {
    const float off = std::abs(distance(box, radius, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f));
    const float coverage = std::clamp(width / 2 + 0.5f - off, 0.0f, 1.0f);
    if (coverage > 0) blend(image, x, y, colour, coverage);
  });
}

void plate(Image& image, const Box& box, float radius, Rgb colour) {
  around(image, box, 1, INFINITY, [&](int x, int y) {
    const float coverage = std::clamp(
        0.5f - distance(box, radius, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f), 0.0f, 1.0f);
    if (coverage > 0) blend(image, x, y, colour, coverage);
  });
}

float distance(const Stroke& stroke, float x, float y) {
  const float across = stroke.x1 - stroke.x0, down = stroke.y1 - stroke.y0, length = across * across + down * down;
  const float along =
      length > 0 ? std::clamp(((x - stroke.x0) * across + (y - stroke.y0) * down) / length, 0.0f, 1.0f) : 0.0f;
  return std::hypot(x - stroke.x0 - along * across, y - stroke.y0 - along * down);
}

Rgb readable_on(Rgb colour) {
  const double light = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2];
  return light > 150 ? Rgb{16, 18, 22} : Rgb{255, 255, 255};
}

Box rounded(const Detection& detection) {
  return {std::round(detection.box[0]), std::round(detection.box[1]), std::round(detection.box[2]),
          std::round(detection.box[3])};
}

struct Sizes {
  float line, text, margin;
};

Sizes sizes_for(const Image& image) {
  const float size = static_cast<float>(image.width + image.height) / 2,
              text = std::max(8.0f, std::round(size * 0.014f));
  return {std::max(2.0f, std::round(size * 0.0035f)), text, std::round(text * 0.55f)};
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
  for (size_t at = detections.size(); at-- > 0;)
    outline(image, rounded(detections[at]), width, class_colour(detections[at].class_id));
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
