// SPDX-License-Identifier: Apache-2.0
#include "compile/bisection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tenon::compile {
namespace {

using Choice = std::vector<char>;

TEST(Bisection, FindsTheMostThatIsGoodEnough) {
  // Eight groups of the same sensitivity, of which five may stay.
  Bisection bisection(std::vector<double>(8, 1));
  Choice best;
  for (int asked = 0; asked < 8; ++asked) {
    const std::optional<Choice> stays = bisection.next(0.5);
    if (!stays) break;
    const auto count = std::count(stays->begin(), stays->end(), 1);
    bisection.tell(count <= 5);
    if (count <= 5) best = *stays;
  }
  EXPECT_EQ(best, Choice({1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_FALSE(bisection.next(0.5)) << "six are too many, five are not";
}

TEST(Bisection, TriesWhatTheDropSaysAsLongAsNothingWasGoodEnough) {
  Bisection bisection(std::vector<double>(10, 1));
  EXPECT_EQ(bisection.next(0.5), Choice({1, 1, 0, 0, 0, 0, 0, 0, 0, 0})) << "a quarter: drops are of moves, squared";
  bisection.tell(false);
  EXPECT_EQ(bisection.next(0.9), Choice({1, 0, 0, 0, 0, 0, 0, 0, 0, 0})) << "not nearly all of what was too much";
}

TEST(Bisection, ExpectsAsManyChoicesAsHalvingTakes) {
  Bisection bisection(std::vector<double>(64, 1));
  EXPECT_EQ(bisection.expected(0, 0.5), 0);
  EXPECT_NEAR(bisection.expected(6, 0.5), 5.5, 0.5);
  EXPECT_LE(bisection.expected(3, 0.5), 3);
  double last = bisection.expected(9, 0.5);
  for (bool enough = true; bisection.next(0.5); enough = !enough) {
    bisection.tell(enough);
    const double now = bisection.expected(9, 0.5);
    EXPECT_NEAR(now, last - 1, 0.9);
    last = now;
  }
  EXPECT_EQ(last, 0) << "nothing lies between";
  EXPECT_EQ(Bisection(std::vector<double>()).expected(9, 0.5), 0);
  EXPECT_EQ(Bisection(std::vector<double>(1, 1)).expected(9, 0.5), 0) << "all or nothing, and all was too much";
}

}  // namespace
}  // namespace tenon::compile
