// SPDX-License-Identifier: Apache-2.0
#include "cli/stages.h"

#include <gtest/gtest.h>

namespace tenon::cli {
namespace {

TEST(Stages, OfAJudgedBuildGoOnThroughSixSteps) {
  Stages stages(BuildKind::judged);
  double last = 0;
  const auto expect = [&](const char* stage, double done, int step) {
    const Stages::Place place = stages.at(stage, done);
    EXPECT_EQ(place.step, step) << stage;
    EXPECT_EQ(place.of, 6);
    EXPECT_GE(place.done, last) << stage;
    EXPECT_LE(place.done, 1);
    last = place.done;
  };
  expect("tune", 0, 1), expect("tune", 1, 1);
  expect("judge fp32", 0.5, 2), expect("judge jitter", 1, 2);
  expect("calibrate", 0.5, 3);
  expect("choose ranges", 0.5, 4);
  for (int engine = 0; engine < 3; ++engine) expect("tune", 0.5, 4), expect("judge", 1, 4);
  expect("measure layers", 0.5, 5);
  for (int engine = 0; engine < 8; ++engine) expect("tune", 0.5, 6), expect("judge", 1, 6);
  EXPECT_GT(last, 0.95);
}

TEST(Stages, ThatACacheLeavesOutAreSkipped) {
  Stages stages(BuildKind::judged);
  stages.at("judge fp32", 1), stages.at("judge jitter", 1);
  EXPECT_EQ(stages.at("tune", 0).step, 6);
  Stages calibrated(BuildKind::calibrated);
  EXPECT_EQ(calibrated.at("calibrate", 1).step, 1);
  EXPECT_EQ(calibrated.at("tune", 0).step, 4);
}

TEST(Stages, OfAPlainBuildAreOneStep) {
  Stages stages(BuildKind::plain);
  EXPECT_EQ(stages.at("tune", 0.5).of, 1);
  EXPECT_DOUBLE_EQ(stages.at("tune", 0.25).done, 0.5) << "never back";
}

TEST(Stages, TheTimeLeftIsToldAfterAFifth) {
  Stages stages(BuildKind::plain);
  stages.at("tune", 0.1);
  EXPECT_LT(stages.left(10), 0);
  stages.at("tune", 0.25);
  EXPECT_DOUBLE_EQ(stages.left(10), 30);
}

}  // namespace
}  // namespace tenon::cli
