// SPDX-License-Identifier: Apache-2.0
#include "vision/detect.h"

#include <gtest/gtest.h>
#include <tenon/error.h>

#include <cmath>

#include "boxes.h"
#include "vision/labels.h"

namespace tenon::vision {
namespace {

std::vector<Detection> run(std::span<const Tensor> outputs, HeadKind kind, size_t labels = 0,
                           DetectOptions options = {}) {
  const std::optional<Head> head = recognise(outputs, 64, 64, {.labels = labels});
  EXPECT_TRUE(head.has_value());
  if (!head) return {};
  EXPECT_STREQ(name(head->kind), name(kind));
  return detect(*head, outputs, outputs[0].dims()[0] - 1, transform, options);
}

void set_row(Tensor& tensor, int64_t row, std::initializer_list<float> values) {
  std::copy(values.begin(), values.end(), tensor.data<float>() + row * tensor.dims().back());
}

TEST(Detect, Yolov8PlanesOfTheLastImage) {
  Tensor out(DType::f32, {2, 4 + 3, grid});
  float* data = out.data<float>() + 7 * grid;
  const float column[] = {32, 32, 16, 8, 0.1f, 0.9f, 0.3f};
  for (int64_t at = 0; at < 7; ++at) data[at * grid + 5] = column[at];
  const auto found = run({&out, 1}, HeadKind::yolov8, 3);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 1, 0.9f, {48, 24, 80, 40});
}

TEST(Detect, Yolov8RowsNeedTheNumberOfLabels) {
  Tensor out(DType::f32, {1, grid, 4 + 3});
  set_row(out, 3, {32, 32, 16, 8, 0.1f, 0.2f, 0.8f});
  const auto found = run({&out, 1}, HeadKind::yolov8, 3);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 2, 0.8f, {48, 24, 80, 40});
}

TEST(Detect, Yolov5MultipliesObjectAndClass) {
  Tensor out(DType::f32, {1, 3 * grid, 5 + 2});
  for (int64_t row = 0; row < 3 * grid; ++row) set_row(out, row, {5, 5, 20, 20, 0, 0, 0});
  set_row(out, 9, {32, 32, 16, 8, 0.8f, 0.5f, 0.1f});
  set_row(out, 10, {50, 32, 16, 8, 0.4f, 0.5f, 0.1f});
  const auto found = run({&out, 1}, HeadKind::yolov5, 2);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 0, 0.4f, {48, 24, 80, 40});
}

TEST(Detect, YoloxDecodesItsGrid) {
  Tensor out(DType::f32, {1, grid, 5 + 2});
  // Second level: stride 16, cell x 1, y 2.
  set_row(out, 64 + 2 * 4 + 1, {0.5f, 0, std::log(0.5f), std::log(2.0f), 0.9f, 0.2f, 1.0f});
  const auto found = run({&out, 1}, HeadKind::yolox);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 1, 0.9f, {40, 0, 56, 64});
}

TEST(Detect, YoloxDecodedInsideTheNetworkReadsAsYolov5) {
  Tensor out(DType::f32, {1, grid, 5 + 2});
  for (int64_t row = 0; row < grid; ++row) set_row(out, row, {5, 5, 20, 20, 0, 0, 0});
  set_row(out, 3, {32, 32, 16, 8, 1, 0, 0.75f});
  const auto found = run({&out, 1}, HeadKind::yolov5);
  ASSERT_EQ(found.size(), 1u);
  expect_box(found[0], 1, 0.75f, {48, 24, 80, 40});
}

TEST(Detect, SsdTakesFractionsAndSkipsBackground) {
  Tensor scores(DType::f32, {1, 100, 3}), boxes(DType::f32, {1, 100, 4});
  for (int64_t row = 0; row < 100; ++row) set_row(scores, row, {1, 0, 0});
  set_row(scores, 42, {0.3f, 0.1f, 0.6f});
  set_row(boxes, 42, {0.25f, 0.5f, 0.5f, 2.0f});
  const Tensor both[] = {scores, boxes}, swapped[] = {boxes, scores};
  for (const auto& outputs : {std::span(both), std::span(swapped)}) {
    const auto found = run(outputs, HeadKind::ssd);
    ASSERT_EQ(found.size(), 1u);
    expect_box(found[0], 1, 0.6f, {32, 32, 64, 64});
  }
}

TEST(Detect, EndToEndKeepsOverlaps) {
  Tensor out(DType::f32, {1, 300, 6});
  set_row(out, 0, {24, 28, 40, 36, 0.9f, 7});
  set_row(out, 1, {24, 28, 40, 36, 0.8f, 7});
  set_row(out, 2, {24, 28, 40, 36, 0.2f, 7});
  const auto found = run({&out, 1}, HeadKind::end_to_end);
  ASSERT_EQ(found.size(), 2u);
  expect_box(found[1], 7, 0.8f, {48, 24, 80, 40});
}

TEST(Detect, LikelihoodsOfCharactersAreNoBoxes) {
  for (const Dims& dims : {Dims{1, 40, 6625}, {1, 80, 37}, {2, 84, 97}}) {
    Tensor characters(DType::f32, dims);
    std::fill_n(characters.data<float>(), characters.elements(), 1 / static_cast<float>(dims[2]));
    EXPECT_FALSE(recognise({&characters, 1}, 320, 48)) << dims.str();
  }
}

TEST(Detect, LogitsOfCharactersAreNoBoxes) {
  // 64 places of 97 characters, which planes of 60 classes look like.
  Tensor characters(DType::f32, {1, 64, 97});
  for (int64_t at = 0; at < characters.elements(); ++at)
    characters.data<float>()[at] = static_cast<float>(at * 7 % 19) / 19 - 0.5f;
  EXPECT_FALSE(recognise({&characters, 1}, 256, 32));
  for (int64_t at = 0; at < characters.elements(); ++at) characters.data<float>()[at] += 0.5f;
  EXPECT_TRUE(recognise({&characters, 1}, 256, 32));
}

TEST(Detect, OtherOutputsAreNoDetector) {
  const Tensor classes[] = {Tensor(DType::f32, {1, 1000})}, ints[] = {Tensor(DType::i64, {1, 84, 8400})},
               wide[] = {Tensor(DType::f32, {1, 32, 160, 160})};
  EXPECT_FALSE(recognise(classes, 64, 64));
  EXPECT_FALSE(recognise(ints, 64, 64));
  EXPECT_FALSE(recognise(wide, 64, 64));
  EXPECT_FALSE(recognise({}, 64, 64));
  const Tensor out(DType::f32, {1, 7, grid});
  const Head head = *recognise({&out, 1}, 64, 64);
  EXPECT_THROW(detect(head, classes, 0, transform), Error);
  EXPECT_THROW(detect(head, {&out, 1}, 1, transform), Error);
  EXPECT_THROW(detect(head, {}, 0, transform), Error);
}

TEST(Detect, ValuesThatAreNotNumbersAreLeftOut) {
  Tensor out(DType::f32, {1, 4 + 2, grid});
  for (int64_t at = 0; at < out.elements(); ++at) out.data<float>()[at] = at % 2 ? NAN : INFINITY;
  EXPECT_TRUE(run({&out, 1}, HeadKind::yolov8).empty());
}

TEST(Nms, KeepsTheBestOfEachClass) {
  const std::vector<Detection> boxes = {{0, 0.5f, {0, 0, 10, 10}},
                                        {0, 0.9f, {1, 0, 11, 10}},
                                        {1, 0.4f, {0, 0, 10, 10}},
                                        {0, 0.3f, {20, 0, 30, 10}},
                                        {0, 0.9f, {1, 1, 11, 11}}};
  const auto kept = nms(boxes, 0.6f, 300);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_FLOAT_EQ(kept[0].box[1], 0) << "equal scores keep their order";
  EXPECT_EQ(kept[1].class_id, 1);
  EXPECT_FLOAT_EQ(kept[2].score, 0.3f);
  EXPECT_EQ(nms(boxes, 1.0f, 300).size(), 5u);
  EXPECT_EQ(nms(boxes, 0.6f, 1).size(), 1u);
}

TEST(Labels, ReadPythonText) {
  EXPECT_EQ(labels_from_metadata("{0: 'person', 1: \"it's\", 3: 'a\\'b',}"),
            (std::vector<std::string>{"person", "it's", "", "a'b"}));
  EXPECT_EQ(labels_from_metadata(" ['x', 'y'] "), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(labels_from_metadata("{\"0\": \"cat\"}"), (std::vector<std::string>{"cat"}));
  EXPECT_TRUE(labels_from_metadata("{}").empty());
  for (const char* text :
       {"", "{", "{0 'a'}", "{0: 'a}", "{0: 'a'} x", "{999999999999: 'a'}", "{-1: 'a'}", "['a' 'b']", "{0: a}"})
    EXPECT_THROW(labels_from_metadata(text), Error) << text;
  EXPECT_EQ(label({"a", ""}, 0), "a");
  EXPECT_EQ(label({"a", ""}, 1), "1");
  EXPECT_EQ(label({}, -1), "-1");
}

}  // namespace
}  // namespace tenon::vision
