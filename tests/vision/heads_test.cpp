// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <tenon/error.h>

#include <cmath>
#include <numbers>

#include "boxes.h"
#include "vision/detect.h"

namespace tenon::vision {
namespace {

/// [1,values,grid], all candidates as `blank` but that of number 5.
Tensor planes(const std::vector<float>& five, const std::vector<float>& blank) {
  Tensor out(DType::f32, {1, static_cast<int64_t>(five.size()), grid});
  for (size_t value = 0; value < five.size(); ++value)
    for (int64_t at = 0; at < grid; ++at)
      out.data<float>()[static_cast<int64_t>(value) * grid + at] = at == 5 ? five[value] : blank[value];
  return out;
}

/// Two planes of 16x16 over the input: the first is positive in its left half, the second everywhere.
Tensor mask_planes() {
  Tensor out(DType::f32, {1, 2, 16, 16});
  for (int64_t at = 0; at < 256; ++at)
    out.data<float>()[at] = at % 16 < 8 ? 1.0f : -1.0f, out.data<float>()[256 + at] = 1;
  return out;
}

TEST(Heads, SegmentationByASecondOutput) {
  const Tensor outputs[] = {planes({32, 32, 32, 16, 0.1f, 0.9f, 0.3f, 1, 0}, {5, 5, 4, 4, 0, 0, 0, -2, 2}),
                            mask_planes()};
  const auto head = recognise(outputs, 64, 64, {.labels = 3});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->task, Task::segment);
  EXPECT_EQ(head->classes, 3);
  EXPECT_EQ(head->from, "a second output of mask planes");
  const auto found = detect(*head, outputs, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 1, 0.9f, {32, 16, 96, 48});
  // The first plane changes its sign in the middle of the input: at column 64 of the image.
  EXPECT_TRUE(found[0].mask.at(32, 16) && found[0].mask.at(63, 47));
  EXPECT_FALSE(found[0].mask.at(64, 16) || found[0].mask.at(31, 16) || found[0].mask.at(32, 48));
  EXPECT_TRUE(detect(*head, outputs, 0, transform, {.boxes_alone = true})[0].mask.empty());
}

TEST(Heads, OutputsOfSegmentationInAnyOrder) {
  const Tensor outputs[] = {mask_planes(),
                            planes({32, 32, 32, 16, 0.1f, 0.9f, 0.3f, 0, 1}, {5, 5, 4, 4, 0, 0, 0, -2, 2})};
  const auto head = recognise(outputs, 64, 64, {.labels = 3, .task = "segment"});
  ASSERT_TRUE(head);
  const auto found = detect(*head, outputs, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].mask.at(95, 47));
}

TEST(Heads, PlanesThatAreNoMasksLeaveADetector) {
  // A training export: 84 values of each candidate, and its maps of 144 channels.
  const Tensor outputs[] = {planes(std::vector<float>(84, 0.5f), std::vector<float>(84, 0.1f)),
                            Tensor(DType::f32, {1, 144, 8, 8})};
  const auto head = recognise(outputs, 64, 64, {.labels = 80});
  ASSERT_TRUE(head);
  EXPECT_EQ(head->task, Task::detect);
}

TEST(Heads, SegmentationOfYolov5Rows) {
  Tensor rows(DType::f32, {1, 3 * grid, 5 + 2 + 2});
  for (int64_t row = 0; row < 3 * grid; ++row)
    std::ranges::copy(std::array<float, 9>{5, 5, 20, 20, 0, 0, 0, 1, 1}, rows.data<float>() + row * 9);
  std::ranges::copy(std::array<float, 9>{32, 32, 32, 16, 0.8f, 0.5f, 0.1f, 1, 0}, rows.data<float>() + 7 * 9);
  const Tensor outputs[] = {rows, mask_planes()};
  const auto head = recognise(outputs, 64, 64);
  ASSERT_TRUE(head);
  EXPECT_STREQ(name(head->kind), "yolov5");
  EXPECT_EQ(head->classes, 2);
  const auto found = detect(*head, outputs, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 0, 0.4f, {32, 16, 96, 48});
  EXPECT_TRUE(found[0].mask.at(63, 30) && !found[0].mask.at(64, 30));
}

TEST(Heads, PoseByMetadata) {
  const std::map<std::string, std::string> metadata = {{"task", "pose"}, {"kpt_shape", "[2, 3]"}};
  const ModelHints hints = ModelHints::of(metadata, 1);
  EXPECT_EQ(hints.points, 2);
  const Tensor out = planes({32, 32, 16, 8, 0.9f, 0.5f, 0.5f, 0.7f, 200, 32, 0.2f}, {5, 5, 4, 4, 0, 0, 0, 0, 0, 0, 0});
  const auto head = recognise({&out, 1}, 64, 64, hints);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->task, Task::pose);
  const auto found = detect(*head, {&out, 1}, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(found[0].points.size(), 2u);
  EXPECT_NEAR(found[0].points[0].x, 1, 1e-4);
  EXPECT_NEAR(found[0].points[0].y, 0, 1e-4) << "above the image";
  EXPECT_NEAR(found[0].points[0].score, 0.7f, 1e-6);
  EXPECT_NEAR(found[0].points[1].x, 128, 1e-4) << "right of the image";
  EXPECT_NEAR(found[0].points[1].y, 32, 1e-4);
}

TEST(Heads, PoseByValues) {
  const Tensor out = planes({32, 32, 16, 8, 0.9f, 30, 31, 0.7f, 40, 32, 0.2f}, {5, 5, 4, 4, 0, 5, 5, 0, 5, 5, 0});
  const auto head = recognise({&out, 1}, 64, 64);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->task, Task::pose);
  EXPECT_EQ(head->points, 2);
  EXPECT_EQ(head->point_values, 3);
  EXPECT_EQ(head->classes, 1);
  EXPECT_EQ(head->from, "the values of its planes");
  // Four values in pixels: pairs without scores.
  const Tensor pairs = planes({32, 32, 16, 8, 0.9f, 30, 31, 40, 32}, {5, 5, 4, 4, 0, 5, 5, 5, 5});
  const auto two = recognise({&pairs, 1}, 64, 64);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->point_values, 2);
  EXPECT_EQ(detect(*two, {&pairs, 1}, 0, transform)[0].points[1].score, 1);
}

TEST(Heads, MetadataThatCannotBeReadIsLeftOut) {
  for (const char* shape : {"", "[", "[17]", "[17, 9]", "[-3, 3]", "[99999999999999999999, 3]", "[100001, 3]"})
    EXPECT_LE(ModelHints::of({{"kpt_shape", shape}}, 1).points, 3) << shape;
  EXPECT_EQ(ModelHints::of({{"task", "classify"}}, 1).task, "");
  EXPECT_EQ(ModelHints::of({{"task", "detect"}, {"kpt_shape", "[17, 3]"}}, 1).points, 0);
}

TEST(Heads, OrientedBoxes) {
  const float turn = std::numbers::pi_v<float> / 6;
  const Tensor out = planes({32, 32, 20, 8, 0.1f, 0.9f, turn}, {5, 5, 4, 4, 0, 0, -0.5f});
  for (const ModelHints& hints : {ModelHints{.labels = 2, .task = "obb"}, ModelHints{.labels = 2}, ModelHints{}}) {
    const auto head = recognise({&out, 1}, 64, 64, hints);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->task, Task::obb);
    EXPECT_EQ(head->classes, 2);
    const auto found = detect(*head, {&out, 1}, 0, transform);
    ASSERT_EQ(found.size(), 1u);
    ASSERT_TRUE(found[0].rotated);
    const Rotated& box = *found[0].rotated;
    EXPECT_NEAR(box.cx, 64, 1e-3);
    EXPECT_NEAR(box.cy, 32, 1e-3);
    EXPECT_NEAR(box.width, 40, 1e-3);
    EXPECT_NEAR(box.height, 16, 1e-3);
    EXPECT_NEAR(box.angle, turn, 1e-5);
    // 40 cos 30° + 16 sin 30° wide, 40 sin 30° + 16 cos 30° high.
    const float wide = (40 * std::sqrt(3.0f) / 2 + 8) / 2, high = (20 + 8 * std::sqrt(3.0f)) / 2;
    expect_box(found[0], 1, 0.9f, {64 - wide, 32 - high, 64 + wide, 32 + high});
  }
}

TEST(Heads, OneMoreValueInUnitRangeIsAClass) {
  const Tensor out = planes({32, 32, 20, 8, 0.1f, 0.9f, 0.3f}, {5, 5, 4, 4, 0, 0, 0.5f});
  const auto head = recognise({&out, 1}, 64, 64);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->task, Task::detect);
  EXPECT_EQ(head->classes, 3);
  EXPECT_FALSE(recognise({&out, 1}, 64, 64, {.labels = 2})) << "a third class has no name";
}

TEST(Heads, DetrWithNoObject) {
  Tensor logits(DType::f32, {1, 10, 3}), boxes(DType::f32, {1, 10, 4});
  for (int64_t row = 0; row < 10; ++row) logits.data<float>()[row * 3 + 2] = 9;
  std::ranges::copy(std::array<float, 3>{std::log(6.0f), std::log(3.0f), 0}, logits.data<float>() + 12);
  std::ranges::copy(std::array<float, 4>{0.5f, 0.5f, 0.25f, 0.125f}, boxes.data<float>() + 16);
  const Tensor both[] = {logits, boxes}, swapped[] = {boxes, logits};
  for (const auto& outputs : {std::span(both), std::span(swapped)}) {
    const auto head = recognise(outputs, 64, 64);
    ASSERT_TRUE(head);
    EXPECT_STREQ(name(head->kind), "detr");
    EXPECT_TRUE(head->no_object);
    const auto found = detect(*head, outputs, 0, transform);
    ASSERT_EQ(found.size(), 1u);
    expect_box(found[0], 0, 0.6f, {48, 24, 80, 40});
  }
}

TEST(Heads, OffsetsFromAnchorsAreNoBoxes) {
  Tensor scores(DType::f32, {1, 10, 6}), offsets(DType::f32, {1, 10, 4});
  for (const float background : {5.0f, 1.0f}) {  // logits, or shares
    for (int64_t row = 0; row < 10; ++row) scores.data<float>()[6 * row] = background;
    for (int64_t at = 0; at < 40; ++at) offsets.data<float>()[at] = at % 4 / 2 == at / 4 % 2 ? 0.3f : -0.3f;
    const Tensor outputs[] = {scores, offsets};
    EXPECT_FALSE(recognise(outputs, 64, 64)) << background;
    std::fill_n(offsets.data<float>(), 40, 0.5f);
    EXPECT_TRUE(recognise(outputs, 64, 64)) << background;
  }
}

TEST(Heads, DetrWithAScoreForEachClass) {
  Tensor logits(DType::f32, {1, 10, 2}), boxes(DType::f32, {1, 10, 4});
  std::fill_n(logits.data<float>(), 20, -5.0f);
  logits.data<float>()[9] = std::log(4.0f);  // 0.8
  std::ranges::copy(std::array<float, 4>{0.5f, 0.5f, 0.25f, 0.125f}, boxes.data<float>() + 16);
  const Tensor outputs[] = {logits, boxes};
  const auto head = recognise(outputs, 64, 64, {.labels = 2, .outputs = {"logits", "pred_boxes"}});
  ASSERT_TRUE(head);
  EXPECT_FALSE(head->no_object);
  EXPECT_EQ(head->from, "the outputs' names");
  const auto found = detect(*head, outputs, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 1, 0.8f, {48, 24, 80, 40});
}

TEST(Heads, RtDetrRowsHoldFractions) {
  Tensor out(DType::f32, {1, 300, 4 + 3});
  for (int64_t row = 0; row < 300; ++row)
    std::ranges::copy(std::array<float, 7>{0.1f, 0.1f, 0.2f, 0.2f, 0.01f, 0, 0}, out.data<float>() + row * 7);
  std::ranges::copy(std::array<float, 7>{0.5f, 0.5f, 0.25f, 0.125f, 0.1f, 0.7f, 0.2f}, out.data<float>() + 21);
  for (const size_t labels : {size_t{0}, size_t{3}}) {
    const auto head = recognise({&out, 1}, 64, 64, {.labels = labels});
    ASSERT_TRUE(head);
    EXPECT_STREQ(name(head->kind), "rtdetr");
    const auto found = detect(*head, {&out, 1}, 0, transform);
    ASSERT_EQ(found.size(), 1u);
    expect_box(found[0], 1, 0.7f, {48, 24, 80, 40});
  }
}

TEST(Heads, BoxesLabelsAndScores) {
  const float corners[] = {24, 28, 40, 36, 0, 16, 8, 24}, shares[] = {0.9f, 0.1f};
  const int64_t ids[] = {18, 1};
  const Tensor boxes = Tensor::of<float>(DType::f32, {2, 4}, corners),
               scores = Tensor::of<float>(DType::f32, {2}, shares), labels = Tensor::of<int64_t>(DType::i64, {2}, ids);
  const Tensor outputs[] = {labels, boxes, scores};
  const auto head = recognise(outputs, 64, 64);
  ASSERT_TRUE(head);
  EXPECT_STREQ(name(head->kind), "labelled");
  const auto found = detect(*head, outputs, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 18, 0.9f, {48, 24, 80, 40});
  const Tensor none[] = {Tensor(DType::i64, {0}), Tensor(DType::f32, {0, 4}), Tensor(DType::f32, {0})};
  EXPECT_TRUE(detect(*head, none, 0, transform).empty()) << "another image has other numbers of boxes";
  EXPECT_TRUE(recognise(none, 64, 64).has_value());
  const Tensor wrong[] = {labels, boxes, Tensor(DType::f32, {3})};
  EXPECT_FALSE(recognise(wrong, 64, 64));
  EXPECT_THROW(detect(*head, wrong, 0, transform), Error);
}

TEST(Heads, MasksBesideBoxesLabelsAndScores) {
  const float corners[] = {16, 16, 48, 48}, share = 0.9f;
  const int64_t id = 2;
  Tensor masks(DType::f32, {1, 1, 64, 64});
  for (int64_t y = 0; y < 64; ++y)
    for (int64_t x = 0; x < 32; ++x) masks.data<float>()[y * 64 + x] = 0.9f;
  const Tensor outputs[] = {Tensor::of<float>(DType::f32, {1, 4}, corners),
                            Tensor::of<int64_t>(DType::i64, {1}, {&id, 1}),
                            Tensor::of<float>(DType::f32, {1}, {&share, 1}), masks};
  const auto head = recognise(outputs, 64, 64);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->task, Task::segment);
  const auto found = detect(*head, outputs, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].mask.at(63, 30) && !found[0].mask.at(65, 30));
}

TEST(Heads, EndToEndWithMasks) {
  Tensor rows(DType::f32, {1, 300, 6 + 2});
  std::ranges::copy(std::array<float, 8>{16, 24, 48, 40, 0.9f, 7, 1, 0}, rows.data<float>() + 8);
  const Tensor outputs[] = {rows, mask_planes()};
  const auto head = recognise(outputs, 64, 64);
  ASSERT_TRUE(head);
  EXPECT_STREQ(name(head->kind), "end_to_end");
  const auto found = detect(*head, outputs, 0, transform);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 7, 0.9f, {32, 16, 96, 48});
  EXPECT_TRUE(found[0].mask.at(63, 30) && !found[0].mask.at(64, 30));
}

TEST(Heads, PartsOfOtherSizesAreRefused) {
  const Tensor outputs[] = {planes({32, 32, 32, 16, 0.1f, 0.9f, 0.3f, 1, 0}, {5, 5, 4, 4, 0, 0, 0, -2, 2}),
                            mask_planes()};
  const auto head = recognise(outputs, 64, 64, {.labels = 3});
  ASSERT_TRUE(head);
  const Tensor fewer[] = {outputs[0], Tensor(DType::f32, {1, 1, 16, 16})}, none[] = {outputs[0]};
  EXPECT_THROW(detect(*head, fewer, 0, transform), Error);
  EXPECT_THROW(detect(*head, none, 0, transform), Error);
}

}  // namespace
}  // namespace tenon::vision
