// SPDX-License-Identifier: Apache-2.0
#include "cli/stages.h"

#include <gtest/gtest.h>

namespace tenon::cli {
namespace {

TEST(Stages, OfAJudgedBuildGoOnThroughSixSteps) {
  Stages stages(BuildKind::judged);
  double last = 0, seconds = 0;
  const auto expect = [&](const char* stage, int step) {
    seconds += 2;
    const Stages::Place place = stages.at(stage, seconds, 40 - seconds);
    EXPECT_EQ(place.step, step) << stage;
    EXPECT_EQ(place.of, 6);
    EXPECT_GE(place.done, last) << stage;
    EXPECT_LE(place.done, 1);
    last = place.done;
  };
  expect("tune", 1), expect("judge fp32", 2), expect("judge jitter", 2), expect("judge copies", 2);
  expect("calibrate", 3), expect("choose ranges", 4);
  for (int engine = 0; engine < 3; ++engine) expect("tune", 4), expect("judge", 4);
  expect("measure layers", 5);
  for (int engine = 0; engine < 3; ++engine) expect("time layers", 6), expect("judge", 6);
  EXPECT_GT(last, 0.9);
}

TEST(Stages, ForRecurrentLayersBelongToJudging) {
  Stages stages(BuildKind::judged);
  for (const char* stage : {"judge fp32", "judge jitter", "recurrent layers", "tune", "judge"})
    EXPECT_EQ(stages.at(stage, 1, -1).step, 2) << stage;
  EXPECT_EQ(stages.at("calibrate", 2, -1).step, 3);
}

TEST(Stages, ThatACacheLeavesOutAreSkipped) {
  Stages stages(BuildKind::judged);
  stages.at("judge fp32", 1, -1), stages.at("judge jitter", 2, -1);
  EXPECT_EQ(stages.at("tune", 3, -1).step, 6);
  Stages calibrated(BuildKind::calibrated);
  EXPECT_EQ(calibrated.at("tune", 0, -1).step, 1);
  EXPECT_EQ(calibrated.at("calibrate", 1, -1).step, 1);
  EXPECT_EQ(calibrated.at("tune", 2, -1).step, 4);
}

TEST(Stages, OfAPlainBuildAreOneStep) {
  Stages stages(BuildKind::plain);
  EXPECT_EQ(stages.at("tune", 5, 5).of, 1);
  EXPECT_DOUBLE_EQ(stages.at("tune", 6, 18).done, 0.5) << "never back";
}

TEST(Stages, TheTimeLeftIsToldAfterAFifth) {
  Stages stages(BuildKind::plain);
  EXPECT_LT(stages.at("tune", 10, -1).left, 0);
  EXPECT_LT(stages.at("tune", 10, 90).left, 0);
  EXPECT_DOUBLE_EQ(stages.at("tune", 10, 30).left, 30);
}

TEST(Stages, NothingIsOverByAGuess) {
  Stages stages(BuildKind::plain);
  EXPECT_LT(stages.at("tune", 50, 0).done, 1);
  EXPECT_LT(stages.at("tune", 90, 0).done, 1);
  EXPECT_DOUBLE_EQ(stages.at("tune", 90, 20).left, 20) << "it was wrong";
}

TEST(Stages, TheTimeLeftCountsDownWhereAStageDoesNotKnowIt) {
  Stages stages(BuildKind::judged);
  stages.at("tune", 10, 30);
  const Stages::Place place = stages.at("judge", 25, -1);
  EXPECT_DOUBLE_EQ(place.left, 15);
  EXPECT_DOUBLE_EQ(place.done, 25. / 40);
  EXPECT_DOUBLE_EQ(stages.at("judge", 50, -1).left, 0);
}

}  // namespace
}  // namespace tenon::cli
