// SPDX-License-Identifier: Apache-2.0
#include "vision/brush.h"

#include <algorithm>
#include <cmath>

namespace tenon::vision {
namespace {

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

}  // namespace

void blend(Image& image, int x, int y, Rgb colour, float coverage) {
  uint8_t* pixel = image.row(y) + static_cast<size_t>(x) * 3;
  for (size_t channel = 0; channel < 3; ++channel)
    pixel[channel] = static_cast<uint8_t>(std::lrint(pixel[channel] + (colour[channel] - pixel[channel]) * coverage));
}

void outline(Image& image, const Box& box, float width, Rgb colour) {
  const float radius = std::min({width * 1.5f, (box.x1 - box.x0) / 2, (box.y1 - box.y0) / 2});
  around(image, box, width, width + radius + 1, [&](int x, int y) {
    const float off = std::abs(distance(box, radius, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f));
    const float coverage = std::clamp(width / 2 + 0.5f - off, 0.0f, 1.0f);
    if (coverage > 0) blend(image, x, y, colour, coverage);
  });
}

void plate(Image& image, const Box& box, float radius, Rgb colour, float opacity) {
  around(image, box, 1, INFINITY, [&](int x, int y) {
    const float coverage = std::clamp(
        0.5f - distance(box, radius, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f), 0.0f, 1.0f);
    if (coverage > 0) blend(image, x, y, colour, coverage * opacity);
  });
}

void line(Image& image, const Stroke& at, float width, Rgb colour) {
  const float reach = width / 2 + 1, down = at.y1 - at.y0;
  const auto clamped = [](float value, int limit) {
    return static_cast<int>(std::clamp(value, 0.0f, static_cast<float>(limit)));
  };
  const int top = clamped(std::floor(std::min(at.y0, at.y1) - reach), image.height),
            bottom = clamped(std::ceil(std::max(at.y0, at.y1) + reach), image.height);
  for (int y = top; y < bottom; ++y) {
    // The part of the line near this row bounds its columns.
    float from = 0, to = 1;
    if (std::abs(down) > reach) {
      from = std::clamp((static_cast<float>(y) - reach - at.y0) / down, 0.0f, 1.0f);
      to = std::clamp((static_cast<float>(y) + 1 + reach - at.y0) / down, 0.0f, 1.0f);
    }
    const float one = at.x0 + (at.x1 - at.x0) * from, other = at.x0 + (at.x1 - at.x0) * to;
    const int left = clamped(std::floor(std::min(one, other) - reach), image.width),
              right = clamped(std::ceil(std::max(one, other) + reach), image.width);
    for (int x = left; x < right; ++x) {
      const float off = distance(at, static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f);
      const float coverage = std::clamp(width / 2 + 0.5f - off, 0.0f, 1.0f);
      if (coverage > 0) blend(image, x, y, colour, coverage);
    }
  }
}

void disc(Image& image, Point centre, float radius, Rgb colour) {
  line(image, {centre.x, centre.y, centre.x, centre.y}, 2 * radius, colour);
}

void closed_line(Image& image, std::span<const Point> points, float width, Rgb colour) {
  for (size_t at = 0; at < points.size(); ++at) {
    const Point &a = points[at], &b = points[(at + 1) % points.size()];
    line(image, {a.x, a.y, b.x, b.y}, width, colour);
  }
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

Sizes sizes_for(const Image& image) {
  const float size = static_cast<float>(image.width + image.height) / 2,
              text = std::max(8.0f, std::round(size * 0.014f));
  return {std::max(2.0f, std::round(size * 0.0035f)), text, std::round(text * 0.55f)};
}

}  // namespace tenon::vision
