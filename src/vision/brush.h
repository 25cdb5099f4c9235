// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>

#include "vision/detection.h"
#include "vision/font.h"
#include "vision/image.h"
#include "vision/tags.h"

namespace tenon::vision {

using Rgb = std::array<uint8_t, 3>;

/// Mixes a share `coverage` of the colour into a pixel of the image.
void blend(Image& image, int x, int y, Rgb colour, float coverage);

/// The outline of a box with round corners, `width` pixels wide.
void outline(Image& image, const Box& box, float width, Rgb colour);

/// A filled box with round corners.
void plate(Image& image, const Box& box, float radius, Rgb colour, float opacity = 1);

/// A straight line with round ends, `width` pixels wide.
void line(Image& image, const Stroke& at, float width, Rgb colour);

void disc(Image& image, Point centre, float radius, Rgb colour);

/// Lines from each point to the next, and from the last to the first.
void closed_line(Image& image, std::span<const Point> points, float width, Rgb colour);

/// Distance of a point to a stroke.
float distance(const Stroke& stroke, float x, float y);

/// Black or white, whichever is read better on the colour.
Rgb readable_on(Rgb colour);

/// Widths in pixels that suit an image's size.
struct Sizes {
  float line, text, margin;
};
Sizes sizes_for(const Image& image);

}  // namespace tenon::vision
