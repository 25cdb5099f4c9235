// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vision/brush.h"
#include "vision/detection.h"
#include "vision/image.h"

namespace tenon::vision {

/// A colour that belongs to a class; 80 classes have colours that differ clearly.
Rgb class_colour(int class_id);

/// Draws boxes, upright or oriented, with name and score, masks half transparent with their contours, and key points
/// with the lines of a body where there are 17; widths follow the image's size, better objects lie above weaker ones.
/// Names cover no other names: where many boxes stand close together, the weakest have none.
void draw_detections(Image& image, std::span<const Detection> detections, const std::vector<std::string>& labels);

/// Writes lines in the top left corner, each on a plate of its own.
void draw_lines(Image& image, std::span<const std::string> lines);

/// Writes names beside plates of their colours, one below the other in the top left corner, as many as fit.
struct LegendLine {
  Rgb colour;
  std::string text;
};
void draw_legend(Image& image, std::span<const LegendLine> lines);

/// Masks of objects, half transparent in the colours of their classes, with contours.
void draw_masks(Image& image, std::span<const Detection> detections);
/// Key points with a score of at least 0.25, and the lines of a body between them where there are 17, as in COCO.
void draw_key_points(Image& image, std::span<const Detection> detections);

/// Writes a line of text whose capitals are `height` pixels high, their top left corner at (x, y). Gives its width in
/// pixels.
float draw_text(Image& image, std::string_view text, float x, float y, float height, Rgb colour);

}  // namespace tenon::vision
