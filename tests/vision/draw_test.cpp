// SPDX-License-Identifier: Apache-2.0
#include "vision/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "vision/font.h"
#include "vision/tags.h"

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

bool is_colour(const Image& image, int x, int y, Rgb colour) {
  return std::equal(colour.begin(), colour.end(), image.row(y) + x * 3);
}

TEST(Draw, MasksTintAndContoursDoNot) {
  Image image(200, 150);
  Detection one{3, 0.5f, {40, 40, 160, 120}};
  one.mask = {60, 60, 40, 40, std::vector<uint8_t>(1600, 1)};
  draw_detections(image, {&one, 1}, {});
  const Rgb colour = class_colour(3);
  for (size_t channel = 0; channel < 3; ++channel)
    EXPECT_NEAR(image.row(80)[80 * 3 + channel], colour[channel] * 0.45, 1);
  EXPECT_GT(image.row(80)[60 * 3], colour[0] * 0.7) << "the contour";
  EXPECT_TRUE(is_colour(image, 120, 80, {0, 0, 0})) << "in the box, not in the mask";
}

TEST(Draw, OrientedBoxesLieAsTheyAre) {
  Image image(200, 150);
  Detection one{1, 0.5f, {58, 33, 142, 117}};
  one.rotated = Rotated{100, 75, 80, 40, 0.7853982f};
  draw_detections(image, {&one, 1}, {});
  const auto is_dark = [&](int x, int y) { return is_colour(image, x, y, {0, 0, 0}); };
  EXPECT_TRUE(is_dark(58, 75) && is_dark(100, 75)) << "neither what encloses it nor its middle";
  // The middles of the long sides lie 20 across the direction of 45 degrees.
  EXPECT_TRUE(is_colour(image, 86, 89, class_colour(1)) && is_colour(image, 114, 61, class_colour(1)));
}

TEST(Draw, BodiesHaveLimbsWherePointsAreSeen) {
  Image image(200, 150);
  Detection one{0, 0.5f, {0, 0, 1, 1}};
  one.points.assign(17, {0, 0, 0.1f});
  one.points[5] = {50, 50, 0.9f}, one.points[7] = {50, 100, 0.9f}, one.points[6] = {150, 50, 0.2f};
  draw_key_points(image, {&one, 1});
  EXPECT_FALSE(is_colour(image, 50, 75, {0, 0, 0})) << "the left upper arm";
  EXPECT_FALSE(is_colour(image, 50, 50, {0, 0, 0}));
  EXPECT_TRUE(is_colour(image, 100, 50, {0, 0, 0}) && is_colour(image, 150, 50, {0, 0, 0})) << "a shoulder unseen";
  one.points.resize(4);
  one.points[0] = {100, 100, 1}, one.points[1] = {150, 100, 1};
  Image other(200, 150);
  draw_key_points(other, {&one, 1});
  EXPECT_TRUE(is_colour(other, 100, 100, class_colour(0)) && is_colour(other, 125, 100, {0, 0, 0})) << "points alone";
}

TEST(Draw, LegendsHaveTheColoursAndEndWithTheImage) {
  std::vector<LegendLine> lines(100, {class_colour(4), "sky 3.0%"});
  Image image(300, 200), small(9, 7);
  draw_legend(image, lines);
  draw_legend(small, lines);
  int swatches = 0;
  for (int y = 1; y < 200; ++y)
    swatches += is_colour(image, 13, y, class_colour(4)) && !is_colour(image, 13, y - 1, class_colour(4));
  EXPECT_GT(swatches, 5);
  EXPECT_LT(swatches, 20);
  for (int x = 0; x < 300; ++x) ASSERT_TRUE(is_colour(image, x, 198, {0, 0, 0})) << x;
}

TEST(Draw, PartsStayInsideAnyImage) {
  for (const float size : {0.0f, 1.0f, 30.0f, 50000.0f}) {
    Image image(64, 48);
    Detection one{2, 1, {-size, -size, size, size}};
    one.rotated = Rotated{size, -size, 2 * size, size, 1};
    one.points.assign(17, {size, -size, 1});
    one.points[3] = {-size, size, 1};
    one.mask = {-10, 40, 90, 30000, std::vector<uint8_t>(2700000, 1)};
    draw_detections(image, {&one, 1}, {"x"});
    EXPECT_EQ(image.pixels.size(), size_t{64 * 48 * 3});
  }
}

/// CIELAB of an sRGB colour under D65.
std::array<double, 3> lab(Rgb colour) {
  const auto linear = [](double value) {
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  const double r = linear(colour[0] / 255.0), g = linear(colour[1] / 255.0), b = linear(colour[2] / 255.0);
  const auto root = [](double value) {
    return value > 216.0 / 24389 ? std::cbrt(value) : (24389.0 / 27 * value + 16) / 116;
  };
  const double x = root((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047),
               y = root(0.2126729 * r + 0.7151522 * g + 0.0721750 * b),
               z = root((0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

TEST(Draw, ColoursOfEightyClassesDifferClearly) {
  double least = INFINITY;
  for (int a = 0; a < 80; ++a)
    for (int b = 0; b < a; ++b) {
      const auto one = lab(class_colour(a)), other = lab(class_colour(b));
      least = std::min(least, std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]));
    }
  EXPECT_GT(least, 21);
}

TEST(Draw, TagsCoverNoOtherTags) {
  constexpr float width = 640, height = 480;
  uint32_t state = 7;
  const auto random = [&](int below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>((state >> 8) % static_cast<uint32_t>(below));
  };
  size_t placed = 0, all = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<Tag> tags;
    for (int at = 0; at < 4 + 2 * round; ++at) {
      const float x = random(600), y = random(440);
      tags.push_back({{x, y, x + 10 + random(200), y + 10 + random(200)}, 40 + random(60), 19});
    }
    const auto places = place_tags(tags, width, height, 2);
    ASSERT_EQ(places.size(), tags.size());
    all += tags.size();
    for (size_t a = 0; a < places.size(); ++a) {
      if (!places[a]) continue;
      ++placed;
      EXPECT_GE(places[a]->x0, 0);
      EXPECT_GE(places[a]->y0, 0);
      EXPECT_LE(places[a]->x1, width + 1);
      EXPECT_LE(places[a]->y1, height + 1);
      for (size_t b = 0; b < a; ++b)
        if (places[b]) {
          EXPECT_FALSE(places[a]->x0 < places[b]->x1 && places[b]->x0 < places[a]->x1 &&
                       places[a]->y0 < places[b]->y1 && places[b]->y0 < places[a]->y1)
              << a << " covers " << b;
        }
    }
    if (round < 10) {
      EXPECT_TRUE(std::all_of(places.begin(), places.end(), [](const auto& one) { return one; }));
    }
  }
  EXPECT_GT(placed, all * 9 / 10);
}

TEST(Draw, EqualBoxesHaveTagsOfTheirOwn) {
  const Tag tag{{100, 100, 300, 300}, 80, 20};
  const std::vector<Tag> tags(12, tag);
  const auto places = place_tags(tags, 640, 480, 2);
  EXPECT_TRUE(std::all_of(places.begin(), places.end(), [](const auto& one) { return one.has_value(); }));
  EXPECT_FLOAT_EQ(places[0]->x0, 99);
  EXPECT_FLOAT_EQ(places[0]->y1, 101);
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
