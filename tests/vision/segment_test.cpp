// SPDX-License-Identifier: Apache-2.0
#include "vision/segment.h"

#include <gtest/gtest.h>
#include <tenon/error.h>

#include <random>

#include "vision/draw.h"
#include "vision/png.h"

namespace tenon::vision {
namespace {

// A 128x64 image in a 64x64 input: half size, 16 pixels of border above and below.
constexpr Transform transform{0.5, 0.5, 0, 16, 128, 64, 64, 64};

int at(const ClassMap& map, int x, int y) { return map.classes[static_cast<size_t>(y) * 128 + static_cast<size_t>(x)]; }

TEST(Segment, LogitsChangeWhereTheirLinesCross) {
  // Two classes over 16 columns: class 1 leads by column - 7.5, which is 0 in the middle of the input.
  Tensor first(DType::f32, {1, 2, 16, 16}), last(DType::f32, {1, 16, 16, 2});
  for (int64_t y = 0; y < 16; ++y)
    for (int64_t x = 0; x < 16; ++x)
      first.data<float>()[256 + y * 16 + x] = last.data<float>()[(y * 16 + x) * 2 + 1] = static_cast<float>(x) - 7.5f;
  for (const Tensor* out : {&first, &last}) {
    const auto head = recognise_map({out, 1}, 64, 64);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->classes, 2);
    EXPECT_EQ(head->channels_last, out == &last);
    const ClassMap map = segment(*head, {out, 1}, 0, transform);
    ASSERT_EQ(map.classes.size(), 128u * 64);
    EXPECT_TRUE(at(map, 63, 5) == 0 && at(map, 64, 5) == 1);
    EXPECT_EQ(pixels_of_classes(map), (std::vector<int64_t>{64 * 64, 64 * 64}));
  }
}

TEST(Segment, ManyClassesAreThoseOfPlainInterpolation) {
  constexpr int64_t classes = 9, side = 16;
  Tensor out(DType::f32, {1, classes, side, side});
  std::mt19937 random(7);
  for (int64_t i = 0; i < out.elements(); ++i)
    out.data<float>()[i] = i % 16 < 8 ? static_cast<float>(random() % 1000) : static_cast<float>(i / 256);
  const ClassMap map = segment(*recognise_map({&out, 1}, 64, 64), {&out, 1}, 0, transform);
  for (int y = 0; y < 64; ++y)
    for (int x = 0; x < 128; ++x) {
      const auto clamped = [](double v) { return std::clamp(v, 0.0, double{side - 1}); };
      const double px = clamped((x + 0.5) * 0.5 / 4 - 0.5), py = clamped(((y + 0.5) * 0.5 + 16) / 4 - 0.5);
      const auto lx = static_cast<int64_t>(px), ly = static_cast<int64_t>(py), hx = std::min(lx + 1, side - 1),
                 hy = std::min(ly + 1, side - 1);
      double most = -1;
      int best = -1;
      for (int64_t id = 0; id < classes; ++id) {
        const float* plane = out.data<float>() + id * side * side;
        const double fx = px - static_cast<double>(lx), fy = py - static_cast<double>(ly);
        const double score = (plane[ly * side + lx] * (1 - fx) + plane[ly * side + hx] * fx) * (1 - fy) +
                             (plane[hy * side + lx] * (1 - fx) + plane[hy * side + hx] * fx) * fy;
        if (score > most + 1e-3) most = score, best = static_cast<int>(id);
      }
      ASSERT_EQ(at(map, x, y), best) << x << " " << y;
    }
}

TEST(Segment, LabelsAndOneScore) {
  Tensor labels(DType::i64, {1, 64, 64}), scores(DType::f32, {1, 1, 64, 64}), shares(DType::f32, {1, 1, 64, 64}),
      floats(DType::f32, {1, 1, 64, 64});
  for (int64_t i = 0; i < 64 * 64; ++i) {
    const bool right = i % 64 >= 32;
    labels.data<int64_t>()[i] = right ? 300 : 2;
    scores.data<float>()[i] = right ? 3.0f : -3.0f;
    shares.data<float>()[i] = right ? 0.9f : 0.2f;
    floats.data<float>()[i] = right ? 5 : 0;
  }
  const auto map_of_one = [](const Tensor& out, MapKind kind) {
    const auto head = recognise_map({&out, 1}, 64, 64);
    EXPECT_TRUE(head);
    EXPECT_STREQ(name(head->kind), name(kind));
    return segment(*head, {&out, 1}, 0, transform);
  };
  const ClassMap by_label = map_of_one(labels, MapKind::labels), by_score = map_of_one(scores, MapKind::binary),
                 by_share = map_of_one(shares, MapKind::binary), by_float = map_of_one(floats, MapKind::labels);
  EXPECT_TRUE(at(by_label, 63, 0) == 2 && at(by_label, 64, 63) == 300);
  EXPECT_TRUE(at(by_score, 63, 0) == 0 && at(by_score, 64, 63) == 1);
  EXPECT_TRUE(at(by_share, 62, 0) == 0 && at(by_share, 65, 63) == 1);
  EXPECT_TRUE(at(by_float, 63, 0) == 0 && at(by_float, 64, 63) == 5);
}

TEST(Segment, TheOutputOfTheRightName) {
  const Tensor outputs[] = {Tensor(DType::f32, {1, 4, 8, 8}), Tensor(DType::f32, {1, 3, 16, 16})};
  EXPECT_EQ(recognise_map(outputs, 64, 64, {.outputs = {"aux", "out"}})->output, 1u);
  EXPECT_EQ(recognise_map(outputs, 64, 64)->output, 0u);
}

TEST(Segment, OtherOutputsAreNoMaps) {
  for (const Dims& dims :
       {Dims{1, 1000}, Dims{1, 84, 8400}, Dims{1, 1000, 1, 1}, Dims{1, 3, 64, 32}, Dims{1, 0, 64, 64}}) {
    const Tensor out(DType::f32, dims);
    EXPECT_FALSE(recognise_map({&out, 1}, 64, 64)) << dims.str();
  }
  const Tensor out(DType::f32, {1, 3, 64, 64}), other(DType::f32, {1, 4, 64, 64});
  const auto head = recognise_map({&out, 1}, 64, 64);
  EXPECT_THROW(segment(*head, {&other, 1}, 0, transform), Error);
  EXPECT_THROW(segment(*head, {&out, 1}, 1, transform), Error);
}

TEST(Segment, ClassesAreKeptInGreyImages) {
  const uint16_t small[] = {0, 7, 255, 1}, large[] = {0, 300, 65535, 1};
  const Image eight = decode_png(grey_png_bytes(small, 2, 2), "small");
  EXPECT_EQ(eight.width, 2);
  EXPECT_EQ(eight.row(0)[3], 7);
  EXPECT_EQ(eight.row(1)[0], 255);
  const Image sixteen = decode_png(grey_png_bytes(large, 2, 2), "large");
  EXPECT_EQ(sixteen.row(0)[3], 300 >> 8) << "the high byte is kept";
  EXPECT_EQ(sixteen.row(1)[3], 0);
}

TEST(Segment, DrawnClassesTintTheImageAndGroundDoesNot) {
  ClassMap map{40, 20, std::vector<uint16_t>(800)};
  for (size_t i = 0; i < 800; ++i) map.classes[i] = i % 40 >= 20;
  Image image(40, 20);
  draw_classes(image, map, 0);
  EXPECT_EQ(image.row(10)[5 * 3], 0);
  const Rgb colour = class_colour(1);
  for (size_t channel = 0; channel < 3; ++channel) EXPECT_NEAR(image.row(10)[30 * 3 + channel], colour[channel] / 2, 1);
  EXPECT_GT(image.row(10)[19 * 3], 100) << "the edge between them";
}

}  // namespace
}  // namespace tenon::vision
