// SPDX-License-Identifier: Apache-2.0
#include "cli/rate.h"

#include <gtest/gtest.h>

namespace tenon::cli {
namespace {

using std::chrono::seconds;

// The tests' stderr is no terminal, or lines come more often there.
TEST(Rate, TellsSpeedAndTimeLeftEveryFiveSeconds) {
  Rate rate(300, "frame", true);
  const auto begin = Rate::Clock::now();
  EXPECT_EQ(rate.due(1, begin), "");
  EXPECT_EQ(rate.due(100, begin + seconds(10)), "100 of 300 frames, 10.0 frames a second, 20 s left");
  EXPECT_EQ(rate.due(101, begin + seconds(10)), "");
  EXPECT_EQ(rate.due(130, begin + seconds(20)), "130 of 300 frames, 3.0 frames a second, 26 s left");
  EXPECT_EQ(rate.due(300, begin + seconds(40)), "300 of 300 frames, 8.5 frames a second");
}

TEST(Rate, KnowsNoTimeLeftWithoutATotal) {
  Rate rate(0, "image", true);
  EXPECT_EQ(rate.due(1, Rate::Clock::now() + seconds(10)), "1 image, 0.1 images a second");
}

TEST(Rate, LongTimesAreMinutesAndHours) {
  Rate rate(100000, "image", true);
  const auto begin = Rate::Clock::now();
  EXPECT_EQ(rate.due(1000, begin + seconds(10)), "1000 of 100000 images, 100.0 images a second, 17 min left");
  EXPECT_EQ(rate.due(1001, begin + seconds(1000)), "1001 of 100000 images, 0.0 images a second, 27.5 h left");
}

}  // namespace
}  // namespace tenon::cli
