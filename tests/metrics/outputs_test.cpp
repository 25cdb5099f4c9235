// SPDX-License-Identifier: Apache-2.0
#include "metrics/outputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tenon::metrics {
namespace {

TEST(cosine, tells_directions_apart_from_lengths) {
  const std::vector<float> one{1, 2, 2}, longer{2, 4, 4}, across{2, -1, 0}, none{0, 0, 0};
  EXPECT_DOUBLE_EQ(cosine(one, longer), 1);
  EXPECT_DOUBLE_EQ(cosine(one, across), 0);
  EXPECT_DOUBLE_EQ(cosine(none, none), 1);
  EXPECT_DOUBLE_EQ(cosine(one, none), 0);
  EXPECT_EQ(cosine(one, {{NAN, 2, 2}}), 0);
}

TEST(same_best, compares_positions_along_either_axis) {
  // Two classes at three positions: the second wins at the first and the last.
  const std::vector<float> planes{0, 1, 0, 1, 0, 1}, flipped{0, 0, 0, 1, 1, 1}, pairs{0, 1, 1, 0, 0, 1};
  EXPECT_EQ(same_best(planes, planes, 2, 3), 3);
  EXPECT_EQ(same_best(planes, flipped, 2, 3), 2);
  EXPECT_EQ(same_best(pairs, {{1, 0, 1, 0, 0, 1}}, 2, 1), 2);
}

TEST(best_in_turn, takes_equal_neighbours_as_one) {
  const std::vector<float> scores{3, 1, 2, 0, 0, 5, 9, 0};
  EXPECT_EQ(best_in_turn(scores, 2), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_TRUE(best_in_turn({}, 2).empty());
}

TEST(overlap, counts_what_is_above_a_threshold) {
  const Overlap found = overlap({{0.9f, 0.6f, 0.5f, 0.1f, 0}}, {{0.7f, 0.2f, 0.8f, 0.6f, 0}}, 0.5f);
  EXPECT_EQ(found.first, 2);
  EXPECT_EQ(found.second, 3);
  EXPECT_EQ(found.both, 1);
  EXPECT_EQ(found.either(), 4);
}

TEST(blank_of, is_the_first_or_the_last_class_of_many_steps) {
  const std::vector<float> first{9, 0, 1, 0, 9, 1, 9, 0, 1}, last{0, 1, 9, 0, 9, 1, 0, 1, 9}, middle{0, 9, 1, 0, 9, 1};
  EXPECT_EQ(blank_of(first, 3), 0);
  EXPECT_EQ(blank_of(last, 3), 2);
  EXPECT_EQ(blank_of(middle, 3), -1);
  EXPECT_EQ(blank_of({}, 3), -1);
}

TEST(edits, are_the_fewest) {
  const std::vector<int64_t> word{1, 2, 3, 4}, none;
  EXPECT_EQ(edits(word, word), 0);
  EXPECT_EQ(edits(word, none), 4);
  EXPECT_EQ(edits(none, word), 4);
  EXPECT_EQ(edits(word, std::vector<int64_t>{2, 3, 4}), 1);
  EXPECT_EQ(edits(word, std::vector<int64_t>{2, 3, 9, 4, 5}), 3);
  EXPECT_EQ(edits(word, std::vector<int64_t>{4, 3, 2, 1}), 4);
}

TEST(divergence, is_that_of_the_distributions_whatever_is_added_to_all_logits) {
  const std::vector<float> exact{std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  const std::vector<float> same{exact[0] + 90, exact[1] + 90, exact[2] + 90}, even{7, 7, 7};
  EXPECT_NEAR(divergence(exact, same), 0, 1e-5);
  EXPECT_NEAR(divergence(exact, even), 0.5 * std::log(1.5) + 0.5 * std::log(0.75), 1e-6);
  EXPECT_GT(divergence({{1000, 0}}, {{0, 1000}}), 900);  // without overflow
}

}  // namespace
}  // namespace tenon::metrics
