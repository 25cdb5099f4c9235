// SPDX-License-Identifier: Apache-2.0
#include "vision/draw.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "vision/font.h"

namespace tenon::vision {
namespace {

TEST(Draw, PaintsTheEdgeAndNotTheMiddle) {
  Image image(200, 150);
  const Detection box{3, 0.5f, {50, 60, 150, 120}};
  draw_detections(image, {&box, 1}, {});
  const Rgb colour = class_colour(3);
  EXPECT_TRUE(std::equal(colour.begin(), colour.end(), image.row(90) + 50 * 3));
  EXPECT_TRUE(std::equal(colour.begin(), colour.end(), image.row(119) + 100 * 3));
  const uint8_t* middle = image.row(90) + 100 * 3;
  EXPECT_EQ(middle[0] + middle[1] + middle[2], 0);
  EXPECT_GT(image.row(52)[52 * 3] + image.row(52)[52 * 3 + 1], 0) << "the label stands above";
}

TEST(Draw, AnyBoxStaysInsideAnyImage) {
  for (const auto& [width, height] : {std::pair(1, 1), std::pair(3, 40), std::pair(64, 48)})
    for (const float size : {0.0f, 1.0f, 30.0f, 5000.0f}) {
      Image image(width, height);
      const std::vector<Detection> boxes = {
          {0, 1, {-size, -size, size, size}}, {-5, 0, {size, size, size, size}}, {7, 0.3f, {0, 0, 0, 0}}};
      draw_detections(image, boxes, {"a long name that does not fit", "\xC3\xA9"});
      EXPECT_EQ(image.pixels.size(), static_cast<size_t>(width * height * 3));
    }
}

TEST(Font, EveryCharacterHasItsOwnGlyph) {
  std::vector<std::vector<Stroke>> seen;
  for (char letter = '!'; letter <= '~'; ++letter) {
    std::vector<Stroke> strokes;
    EXPECT_GE(text_strokes({&letter, 1}, strokes), 0);
    EXPECT_FALSE(strokes.empty()) << letter;
    for (const Stroke& s : strokes) {
      EXPECT_GE(std::min(s.y0, s.y1), 0) << letter;
      EXPECT_LE(std::max(s.y0, s.y1), cap_units + descender_units) << letter;
    }
    const auto same = [&](const std::vector<Stroke>& other) {
      return std::equal(other.begin(), other.end(), strokes.begin(), strokes.end(),
                        [](const Stroke& a, const Stroke& b) {
                          return a.x0 == b.x0 && a.y0 == b.y0 && a.x1 == b.x1 && a.y1 == b.y1;
                        });
    };
    EXPECT_TRUE(std::none_of(seen.begin(), seen.end(), same)) << letter;
    seen.push_back(strokes);
  }
}

}  // namespace
}  // namespace tenon::vision
