// SPDX-License-Identifier: Apache-2.0
#include "metrics/peaks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "metrics/outputs.h"

namespace tenon::metrics {
namespace {

std::vector<float> spot(int64_t rows, int64_t columns, double x, double y, int64_t step = 1) {
  std::vector<float> map(static_cast<size_t>(rows * columns * step), 9.f);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const double away = std::hypot(static_cast<double>(column) - x, static_cast<double>(row) - y);
      map[static_cast<size_t>((row * columns + column) * step)] = static_cast<float>(std::exp(-away * away / 4.5));
    }
  return map;
}

TEST(peaks, lie_between_places) {
  for (const int64_t step : {1, 3}) {
    const std::vector<float> map = spot(24, 32, 20.3, 7.6, step);
    const Peak peak = Peak::of({map.data(), 24, 32, step});
    EXPECT_NEAR(peak.x, 20.3, 0.1);
    EXPECT_NEAR(peak.y, 7.6, 0.1);
    EXPECT_NEAR(peak.height, 0.95, 0.1);
  }
}

TEST(peaks, of_a_flat_plane_are_nothing) {
  const std::vector<float> flat(64, 2.f);
  const Plane plane{flat.data(), 8, 8};
  EXPECT_EQ(Peak::of(plane).height, 0);
  EXPECT_FALSE(stands_alone(plane, Peak::of(plane)));
}

TEST(peaks, stand_alone_where_there_is_one_spot) {
  std::vector<float> map = spot(24, 32, 20, 7);
  const Plane plane{map.data(), 24, 32};
  EXPECT_TRUE(stands_alone(plane, Peak::of(plane)));
  map[20 * 32 + 3] = 0.9f;
  EXPECT_FALSE(stands_alone(plane, Peak::of(plane)));
  for (int64_t at = 0; at < 100; ++at) map[static_cast<size_t>(at)] = 1.1f;
  EXPECT_FALSE(stands_alone(plane, Peak::of(plane)));
}

TEST(peaks, are_nearer_the_less_they_move) {
  const Plane plane{nullptr, 25, 50};
  const Peak at{10, 10, 1, 1};
  EXPECT_EQ(nearness(at, at, plane), 1);
  EXPECT_NEAR(nearness(at, {11, 10, 1, 1}, plane), std::exp(-0.5), 1e-9);  // a fiftieth of 50
  EXPECT_LT(nearness(at, {10, 15, 1, 1}, plane), 1e-5);
}

TEST(outputs, have_the_entropy_of_their_shares) {
  EXPECT_NEAR(entropy(std::vector<float>{3, 3, 3, 3}), std::log(4.0), 1e-9);
  EXPECT_NEAR(entropy(std::vector<float>{90, 0, 0}), 0, 1e-9);
  EXPECT_EQ(entropy({}), 0);
}

}  // namespace
}  // namespace tenon::metrics
