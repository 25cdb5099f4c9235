// SPDX-License-Identifier: Apache-2.0
#include "metrics/scored_signal.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tenon::metrics {
namespace {

TEST(scored_signal, weighs_errors_and_the_variance_of_all_samples) {
  const std::vector<double> weights = {1, 0, 0.5};
  ScoredSignal signal;
  signal.add(0, weights, std::vector<float>{1, 9, 4}, std::vector<float>{1, -9, 5}, 1);
  signal.add(0, weights, std::vector<float>{3, 9, 2}, std::vector<float>{4, 7, 2}, 1);
  // Numbers 1, 4, 3, 2 with weights 1, 0.5, 1, 0.5: a mean of 7/3; errors 0, 1, 1, 0.
  const double variance = 1 + 8 + 9 + 2 - 3 * (7. / 3) * (7. / 3);
  EXPECT_NEAR(signal.lost(), 1.5 / variance, 1e-12);
  const std::vector<uint32_t> first_twice = {2, 0};
  EXPECT_NEAR(signal.lost(first_twice), 1. / 6, 1e-12);
}

TEST(scored_signal, is_the_mean_of_channels) {
  const std::vector<double> weights = {1, 1};
  ScoredSignal signal;
  const std::vector<float> pairs = {0, 50, 2, 150}, other = {0, 50, 2, 160};
  signal.add(0, weights, pairs, other, 2);
  signal.add(1, weights, std::span(pairs).subspan(1), std::span(other).subspan(1), 2);
  EXPECT_DOUBLE_EQ(signal.lost(), 100. / 5000 / 2);
}

TEST(scored_signal, is_lost_where_nothing_can_be_compared) {
  const std::vector<double> weights = {1, 1};
  ScoredSignal signal, number;
  EXPECT_EQ(signal.lost(), 0);
  signal.add(0, weights, std::vector<float>{1, 2}, std::vector<float>{1, 2}, 1);
  signal.skip(false);
  EXPECT_EQ(signal.lost(), 0);
  signal.skip(true);
  EXPECT_EQ(signal.lost(), 1);
  number.add(0, weights, std::vector<float>{1, 2}, std::vector<float>{1, NAN}, 1);
  EXPECT_EQ(number.lost(), 1);
}

}  // namespace
}  // namespace tenon::metrics
