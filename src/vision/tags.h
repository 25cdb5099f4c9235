// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
#include <vector>

namespace tenon::vision {

/// Corners in pixels.
struct Box {
  float x0, y0, x1, y1;
};

/// The name that a box bears, and what it takes.
struct Tag {
  Box box;
  float width, height;
};

/// Where tags go, so that none covers another and all lie in the image: above the box at its left, else beside it or in
/// it, else along its edges. Earlier tags go first; one for which there is no room at its box is left out. `line` is
/// the width of the boxes' outline.
std::vector<std::optional<Box>> place_tags(std::span<const Tag> tags, float image_width, float image_height,
                                           float line);

}  // namespace tenon::vision
