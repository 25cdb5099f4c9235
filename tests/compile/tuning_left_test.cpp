// SPDX-License-Identifier: Apache-2.0
#include "compile/tuning_left.h"

#include <gtest/gtest.h>

namespace tenon::compile {
namespace {

/// A tuner whose timings take as long as they are told to, and what it said was left.
struct Watched {
  static constexpr int rounds = 3, more = 3;
  TuningLeft left{rounds, more};
  double now = 0;
  std::vector<std::pair<double, double>> told;  // when, seconds

  /// Entries of two tactics, of which the later rounds time `again`; `first` seconds in the first round, half as long a
  /// tactic in others. `disturbed`: tactics that come again in each further round.
  void phase(const std::vector<double>& first, double again, double later, double disturbed = 0) {
    left.begin(std::vector<double>(first.size(), 2));
    left.expect_later(later);
    for (int round = 0; round < rounds + more; ++round)
      for (size_t at = 0; at < first.size(); ++at) {
        const double tactics = round == 0 ? 2 : round < rounds ? again : disturbed;
        if (tactics == 0) continue;
        told.emplace_back(now, left.left(round, at));
        const double seconds = first[at] / 2 * (round == 0 ? 2 : tactics / 2);
        now += seconds;
        left.timed(at, round, seconds, again, disturbed);
      }
  }

  /// The worst error from a part of the time on, in parts of what was left.
  double error(double from) const {
    double worst = 0;
    for (const auto& [when, seconds] : told)
      if (when >= from * now) worst = std::max(worst, std::abs(seconds / (now - when) - 1));
    return worst;
  }
};

TEST(TuningLeft, IsNotKnownBeforeAnythingWasTimed) {
  TuningLeft left(3, 3);
  EXPECT_LT(left.left(0, 0), 0);
  left.begin({2, 2});
  EXPECT_LT(left.left(0, 0), 0);
  left.timed(0, 0, 1, 0, 0);
  EXPECT_DOUBLE_EQ(left.left(0, 1), 1.4) << "as long as the first, and later rounds as they usually are";
}

TEST(TuningLeft, IsWhatIsUsualBeforeAnythingWasTimed) {
  TuningLeft left(1, 3, 0.5);
  left.begin({2, 4}), left.expect_later(2);
  EXPECT_DOUBLE_EQ(left.left(0, 0), 4) << "eight units of half a second";
  left.timed(0, 0, 4, 0, 0);
  EXPECT_DOUBLE_EQ(left.left(0, 1), 12) << "two seconds each by now";
}

TEST(TuningLeft, CountsLaterRoundsAtThePaceOfEachEntry) {
  Watched watched;
  watched.phase({1, 1, 1, 1, 1, 9, 1, 1, 1, 1}, 2, 0);
  EXPECT_LT(watched.error(0.5), 0.05) << "the slow one's later rounds are known by then";
  EXPECT_DOUBLE_EQ(watched.left.left(Watched::rounds, 0), 0);
}

TEST(TuningLeft, CountsGroupsBeforeTheyAreEntered) {
  Watched watched;
  watched.phase({1, 1, 1, 1, 1}, 2, 20);
  watched.phase(std::vector<double>(10, 1), 2, 0);
  EXPECT_LT(watched.error(0.2), 0.3);
}

TEST(TuningLeft, CountsWhatWasDisturbed) {
  Watched watched;
  watched.phase(std::vector<double>(10, 1), 2, 0, 2);
  EXPECT_LT(watched.error(0.2), 0.4) << "it expects that less and less is disturbed";
}

TEST(TuningLeft, CountsNoMoreOfWhatWasDisturbedThanIsAllowed) {
  TuningLeft left(1, 3);
  left.begin({1, 1});
  left.timed(0, 0, 10, 0, 1), left.timed(1, 0, 10, 0, 1);
  EXPECT_GT(left.left(1, 0), 20);
  left.allow(4, 0.5);
  EXPECT_DOUBLE_EQ(left.left(1, 0), 4);
  EXPECT_DOUBLE_EQ(left.left(0, 0), 4) << "all first rounds are over";
  left.allow(-1, 0.5);
  EXPECT_DOUBLE_EQ(left.left(1, 0), 0);
  left.begin({1, 1});
  EXPECT_DOUBLE_EQ(left.left(0, 0), 20 + 10) << "and half of what first rounds take";
}

}  // namespace
}  // namespace tenon::compile
