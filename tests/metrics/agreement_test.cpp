// SPDX-License-Identifier: Apache-2.0
#include "metrics/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tenon::metrics {
namespace {

TEST(margin, is_above_the_best_of_the_others) {
  EXPECT_DOUBLE_EQ(margin(std::vector<float>{1, 5, 3, -7}, 1), 2);
  EXPECT_DOUBLE_EQ(margin(std::vector<float>{1, 5, 3, -7}, 2), -2);
}

TEST(margin, of_probabilities_is_that_of_their_logarithms) {
  EXPECT_NEAR(margin(logits_of(std::vector<float>{0.25f, 0.5f, 0.25f}), 1), std::log(2), 1e-6);
  EXPECT_TRUE(std::isfinite(margin(logits_of(std::vector<float>{1, 0, 0}), 0)));
  EXPECT_EQ(logits_of(std::vector<float>{1, 5, 3}), (std::vector<float>{1, 5, 3}));
}

TEST(agreement, is_one_where_nothing_changes) {
  Agreement same;
  for (const double margin : {0., 1., 5.}) same.add(margin, margin);
  EXPECT_EQ(same.value(), 1);
  EXPECT_EQ(same.images(), 3);
}

/// Margins 1, 3 and changes 0, -2: of the four pairs 1 - 2 alone is below 0.
TEST(agreement, lets_each_margin_meet_each_change) {
  Agreement some;
  some.add(1, 1), some.add(3, 1);
  EXPECT_DOUBLE_EQ(some.value(), 0.75);
  EXPECT_DOUBLE_EQ(some.value(std::vector<uint32_t>{1, 3}), 1 - 3. / 16);
  EXPECT_DOUBLE_EQ(some.value(std::vector<uint32_t>{5, 0}), 1);
}

TEST(votes, are_lost_by_a_change_for_the_worse_and_won_by_one_for_the_better) {
  Votes votes;
  EXPECT_EQ(votes.lost(0, 1, 2), 0);
  for (const auto& classes : {std::vector<int>{1, 7}, {1, 8}, {2, 8}, {1, 8}}) votes.add(classes);
  EXPECT_DOUBLE_EQ(votes.lost(0, 1, 2), 0.5);
  EXPECT_DOUBLE_EQ(votes.lost(0, 1, 3), 0.75);
  EXPECT_DOUBLE_EQ(votes.lost(1, 7, 8), -0.5);
  EXPECT_DOUBLE_EQ(votes.lost(1, 7, 7), 0);
}

/// With margins of [0, 1] and changes of one deviation s, the share lost is s / sqrt(2 pi): few images see it.
TEST(agreement, sees_with_few_images_what_many_lose) {
  std::mt19937_64 random(7);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) / 9007199254740992.0; };
  constexpr double turn = 2 * 3.14159265358979, deviation = 0.05;
  const auto normal = [&] { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(turn * uniform()); };
  Agreement few;
  for (int at = 0; at < 64; ++at) {
    const double exact = uniform();
    few.add(exact, exact + deviation * normal());
  }
  EXPECT_NEAR(1 - few.value(), deviation / std::sqrt(turn), 0.01);
}

TEST(Agreement, loses_what_is_no_number) {
  Agreement all;
  for (int at = 0; at < 4; ++at) all.add(1, at < 3 ? 1 : NAN);
  EXPECT_DOUBLE_EQ(all.value(), 0.75);
}

TEST(SureAgreement, counts_by_how_sure_the_exact_engine_is) {
  SureAgreement all;
  EXPECT_EQ(all.lost(), 0);
  // Changes of -3 and 0: the first loses both, the second none.
  all.add(0, 2, -1), all.add(1, 0.5, 0.5);
  EXPECT_NEAR(all.lost(), (std::tanh(1) + std::tanh(0.25)) / 4, 1e-12);
  EXPECT_NEAR(all.lost({{1, 0}}), std::tanh(1), 1e-12);
  EXPECT_NEAR(all.lost({{0, 2}}), 0, 1e-12);
  EXPECT_NEAR(all.lost({{2, 1}}), (2 * std::tanh(1) + std::tanh(0.25)) * 2 / 9, 1e-12);
  all.add(1, 9, 5);  // no other change loses this one, and its own loses both others
  EXPECT_NEAR(all.lost(), (2 * std::tanh(1) + 2 * std::tanh(0.25)) / 9, 1e-12);
}

}  // namespace
}  // namespace tenon::metrics
