// SPDX-License-Identifier: Apache-2.0
#include "metrics/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace tenon::metrics {
namespace {

TEST(share, is_of_sums_and_counts_images_as_often_as_asked) {
  Share share;
  share.add(1, 1), share.add(0, 1), share.add(3, 6);
  EXPECT_DOUBLE_EQ(share.value(), 0.5);
  EXPECT_DOUBLE_EQ(share.value(std::vector<uint32_t>{2, 0, 1}), 5.0 / 8);
  EXPECT_EQ(Share().value(), 0);
}

/// The mean of n draws of 0 and 1 has the deviation sqrt(p (1 - p) / n), and 1.96 of it to either side hold 95 %.
TEST(bootstrap, gives_the_interval_of_a_mean) {
  Share share;
  constexpr int64_t n = 400;
  for (int64_t at = 0; at < n; ++at) share.add(at % 5 == 0, 1);
  const Interval interval = bootstrap(n, [&](auto weights) { return share.value(weights); });
  const double half = 1.96 * std::sqrt(0.2 * 0.8 / n);
  EXPECT_NEAR(interval.low, 0.2 - half, 0.2 * half);
  EXPECT_NEAR(interval.high, 0.2 + half, 0.2 * half);
}

TEST(bootstrap, draws_as_many_images_as_there_are_and_the_same_ones_each_time) {
  const auto sum = [](std::span<const uint32_t> weights) {
    return static_cast<double>(std::accumulate(weights.begin(), weights.end(), 0u));
  };
  const Interval total = bootstrap(17, sum);
  EXPECT_EQ(total.low, 17);
  EXPECT_EQ(total.high, 17);
  const auto first = [](std::span<const uint32_t> weights) { return static_cast<double>(weights[0]); };
  EXPECT_EQ(bootstrap(17, first).high, bootstrap(17, first).high);
}

}  // namespace
}  // namespace tenon::metrics
