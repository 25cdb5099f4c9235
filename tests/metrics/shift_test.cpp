// SPDX-License-Identifier: Apache-2.0
#include "metrics/shift.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tenon::metrics {
namespace {

Found found(double score, int class_id = 0, double x = 0) { return {class_id, score, {x, 0, x + 10, 10}}; }

TEST(shift, has_no_mean_where_gains_and_losses_balance) {
  Shift shift;
  for (const double change : {0.5, -0.5, 0.25, -0.25}) shift.add(change);
  EXPECT_EQ(shift.count(), 4);
  EXPECT_DOUBLE_EQ(shift.mean(), 0);
  EXPECT_DOUBLE_EQ(shift.deviation(), std::sqrt((0.25 + 0.0625) / 2));
}

TEST(shift, counts_the_log_odds_of_the_same_box) {
  Shift shift;
  // The box of its class that overlaps most; what had no score worth counting is left out.
  shift.add({found(0.5), found(0.05, 0, 100)}, {found(0.9, 1), found(0.3, 0, 3), found(0.8, 0, 1)});
  EXPECT_EQ(shift.count(), 1);
  EXPECT_NEAR(shift.mean(), std::log(0.8 / 0.2), 1e-12);
}

TEST(shift, counts_a_lost_box_and_bounds_every_change) {
  Shift lost, bounded;
  lost.add({found(0.9)}, {found(0.9, 0, 50)});
  EXPECT_DOUBLE_EQ(lost.mean(), -3);
  bounded.add({found(0.999)}, {found(0.1)});
  EXPECT_DOUBLE_EQ(bounded.mean(), -3);
}

TEST(shift, is_nothing_without_boxes) {
  Shift shift;
  shift.add({}, {found(0.9)});
  EXPECT_EQ(shift.count(), 0);
  EXPECT_EQ(shift.mean(), 0);
  EXPECT_EQ(shift.deviation(), 0);
}

}  // namespace
}  // namespace tenon::metrics
