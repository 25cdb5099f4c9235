// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vision/image.h"
#include "vision/nms.h"

namespace tenon::vision {

using Rgb = std::array<uint8_t, 3>;

/// A colour that belongs to a class; 80 classes have colours that differ clearly.
Rgb class_colour(int class_id);

/// Draws boxes with name and score; widths follow the image's size, better boxes lie above weaker ones. Names cover no
/// other names: where many boxes stand close together, the weakest have none.
void draw_detections(Image& image, std::span<const Detection> detections, const std::vector<std::string>& labels);

/// Writes lines in the top left corner, each on a plate of its own.
void draw_lines(Image& image, std::span<const std::string> lines);

/// Writes a line of text whose capitals are `height` pixels high, their top left corner at (x, y). Gives its width in
/// pixels.
float draw_text(Image& image, std::string_view text, float x, float y, float height, Rgb colour);

}  // namespace tenon::vision
