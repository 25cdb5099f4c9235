// SPDX-License-Identifier: Apache-2.0
#include "vision/mask.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>

#include "vision/nms.h"
#include "vision/rotated.h"

namespace tenon::vision {
namespace {

/// '#' is set.
Mask mask_at(int x0, int y0, const std::vector<std::string>& rows) {
  Mask mask{x0, y0, static_cast<int>(rows[0].size()), static_cast<int>(rows.size()), {}};
  for (const std::string& row : rows)
    for (const char letter : row) mask.bits.push_back(letter == '#');
  return mask;
}

/// The run lengths of COCO's compressed text.
std::vector<int64_t> runs_of(const std::string& text) {
  std::vector<int64_t> runs;
  for (size_t at = 0; at < text.size();) {
    int64_t value = 0;
    int shift = 0, letter = 0;
    do {
      letter = text[at++] - 48;
      value |= static_cast<int64_t>(letter & 31) << shift;
      shift += 5;
    } while (letter & 32);
    if (letter & 16) value |= -(int64_t{1} << shift);
    runs.push_back(runs.size() > 2 ? value + runs[runs.size() - 2] : value);
  }
  return runs;
}

TEST(Mask, RunLengthsGoDownTheColumns) {
  const Mask mask = mask_at(1, 1, {"##", "#."});
  // 4 wide, 3 high: column 0 empty, then 0 1 1, 0 1 0, and the last one.
  EXPECT_EQ(runs_of(run_lengths(mask, 4, 3)), (std::vector<int64_t>{4, 2, 1, 1, 4}));
  EXPECT_EQ(run_lengths(mask, 4, 3), "421O3") << "from the third run on, less the one before the last";
  EXPECT_EQ(runs_of(run_lengths(mask_at(0, 0, {"##", "##"}), 2, 2)), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(runs_of(run_lengths({}, 1000, 700)), (std::vector<int64_t>{700000}));
  EXPECT_EQ(area(mask), 3);
}

TEST(Mask, LongRunsKeepTheirLengths) {
  Mask mask{3, 5, 400, 300, std::vector<uint8_t>(120000)};
  int64_t state = 1, runs_sum = 0, set = 0;
  for (uint8_t& bit : mask.bits) state = state * 48271 % 2147483647, bit = state % 97 < 40;
  const std::vector<int64_t> runs = runs_of(run_lengths(mask, 1000, 800));
  for (size_t at = 0; at < runs.size(); ++at) runs_sum += runs[at], set += at % 2 ? runs[at] : 0;
  EXPECT_EQ(runs_sum, 800000);
  EXPECT_EQ(set, area(mask));
}

TEST(Mask, OutlineFollowsThePixels) {
  const Polygon edge = largest_outline(mask_at(10, 20, {"....", ".##.", ".##.", "...#"}), 0);
  ASSERT_EQ(edge.size(), 4u);
  const float expected[4][2] = {{13, 21}, {13, 23}, {11, 23}, {11, 21}};
  for (size_t at = 0; at < 4; ++at) EXPECT_TRUE(edge[at].x == expected[at][0] && edge[at].y == expected[at][1]) << at;
  EXPECT_EQ(outlines(mask_at(0, 0, {"###", "#.#", "###"}), 0).size(), 2u) << "outside and hole";
  EXPECT_TRUE(largest_outline({}).empty());
}

TEST(Mask, SlantedOutlinesLoseTheirStairs) {
  Mask mask{0, 0, 200, 200, {}};
  for (int y = 0; y < 200; ++y)
    for (int x = 0; x < 200; ++x) mask.bits.push_back(x + 2 * y < 380);
  const Polygon all = largest_outline(mask, 0), few = largest_outline(mask);
  EXPECT_GT(all.size(), 200u);
  EXPECT_LT(few.size(), 12u);
}

TEST(Rotated, CornersAreAroundTheCentre) {
  const auto around = corners({10, 20, 8, 4, std::numbers::pi_v<float> / 2});
  const float expected[4][2] = {{8, 24}, {12, 24}, {12, 16}, {8, 16}};
  for (size_t at = 0; at < 4; ++at) {
    EXPECT_NEAR(around[at].x, expected[at][0], 1e-5);
    EXPECT_NEAR(around[at].y, expected[at][1], 1e-5);
  }
}

TEST(Rotated, ProbabilisticOverlap) {
  const Rotated box{0, 0, 12, 6, 0};
  EXPECT_NEAR(probabilistic_iou(box, box), 1, 1e-3);
  EXPECT_NEAR(probabilistic_iou(box, {0, 0, 6, 12, std::numbers::pi_v<float> / 2}), 1, 1e-3) << "the same box";
  // Covariances diag(12, 3): (dx^2 / 24 / 4 with dx = 6) = 0.375, so that 1 - sqrt(1 - exp(-0.375)) is left.
  EXPECT_NEAR(probabilistic_iou(box, {6, 0, 12, 6, 0}), 1 - std::sqrt(1 - std::exp(-0.375)), 1e-4);
  // Turned by a quarter: determinant 15 * 15 over 4 * 36, and no distance of the centres.
  EXPECT_NEAR(probabilistic_iou(box, {0, 0, 12, 6, std::numbers::pi_v<float> / 2}),
              1 - std::sqrt(1 - std::exp(-std::log(225.0 / 144) / 2)), 1e-4);
  EXPECT_NEAR(probabilistic_iou(box, {1000, 0, 12, 6, 0}), 0, 1e-3);
}

TEST(Rotated, LongSideAndHalfTurn) {
  const Transform transform{0.5, 0.5, 0, 16, 128, 64, 64, 64};
  const Rotated high = to_source({32, 32, 4, 10, 0.2f}, transform);
  EXPECT_NEAR(high.width, 20, 1e-4);
  EXPECT_NEAR(high.height, 8, 1e-4);
  EXPECT_NEAR(high.angle, 0.2 + std::numbers::pi / 2, 1e-5);
  EXPECT_NEAR(to_source({32, 32, 10, 4, -0.2f}, transform).angle, std::numbers::pi - 0.2, 1e-5);
  EXPECT_NEAR(to_source({32, 32, 10, 4, -0.0f}, transform).angle, 0, 1e-6);
}

TEST(Nms, OrientedBoxesThatCrossStay) {
  const auto turned = [](float score, float angle, float cx) {
    Detection one{0, score, {0, 0, 20, 20}};
    one.rotated = Rotated{cx, 10, 24, 4, angle};
    return one;
  };
  const auto kept = nms(
      {turned(0.9f, 0.7f, 10), turned(0.8f, 0.7f + std::numbers::pi_v<float> / 2, 10), turned(0.7f, 0.72f, 10.2f)},
      0.6f, 300);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_FLOAT_EQ(kept[1].score, 0.8f);
}

}  // namespace
}  // namespace tenon::vision
