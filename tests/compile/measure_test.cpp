// SPDX-License-Identifier: Apache-2.0
#include "compile/measure.h"

#include <gtest/gtest.h>

#include <functional>

#include "plan/plan.h"

namespace tenon::compile {
namespace {

constexpr backends::TimingPolicy policy{.repeats = 5, .more_repeats = 10, .rounds = 3, .near = 1.25, .by_least = true};

/// Runs that take what a test says; `of` gets the tactic and how often it ran before.
class ToldTimer : public backends::TacticTimer {
 public:
  using Of = std::function<Measurement(size_t tactic, int run)>;
  explicit ToldTimer(Of of) : of_(std::move(of)) {}
  void prepare(std::span<const backends::Problem* const>, const backends::Prepared&) override {}
  std::vector<size_t> begin(const backends::Problem&, std::span<const std::string>) override { return {}; }
  double run(size_t tactic) override {
    last_ = of_(tactic, runs[tactic]++);
    return last_.microseconds;
  }
  bool disturbed() const override { return last_.disturbed; }

  std::map<size_t, int> runs;

 private:
  Of of_;
  Measurement last_{0, false};
};

std::vector<Measurement> measured(ToldTimer& timer, const backends::TimingPolicy& how = policy) {
  constexpr size_t ready[] = {0, 1};
  Allowance allowance;
  return measure(timer, ready, how, true, plan::never, allowance);
}

TEST(Measure, TakesTheLeastTimeOrTheMedianAsThePolicySays) {
  const auto of = [](size_t tactic, int run) { return Measurement{100.0 * (tactic + 1) + run % 3, false}; };
  ToldTimer timer(of), again(of);
  const auto least = measured(timer);
  EXPECT_EQ(least[0].microseconds, 100);
  EXPECT_EQ(least[1].microseconds, 200);
  EXPECT_FALSE(least[0].disturbed);
  backends::TimingPolicy by_median = policy;
  by_median.by_least = false;
  EXPECT_EQ(measured(again, by_median)[0].microseconds, 101);
}

/// The tactic that is faster on an idle machine is found though it was disturbed more often than the other.
TEST(Measure, DisturbedRunsDoNotCount) {
  ToldTimer timer([](size_t tactic, int run) {
    const bool disturbed = tactic == 1 && run < 6;
    return Measurement{(tactic == 1 ? 161.0 : 306.0) * (disturbed ? 3 : 1), disturbed};
  });
  const auto times = measured(timer);
  EXPECT_EQ(times[0].microseconds, 306);
  EXPECT_EQ(times[1].microseconds, 161);
  EXPECT_FALSE(times[1].disturbed);
}

TEST(Measure, GivesUpOnAMachineThatIsAlwaysBusy) {
  ToldTimer timer([](size_t tactic, int) { return Measurement{100, tactic == 1}; });
  const auto times = measured(timer);
  EXPECT_FALSE(times[0].disturbed);
  EXPECT_TRUE(times[1].disturbed);
  EXPECT_LE(timer.runs[1], 50);
}

/// Others need no core of ours to slow a run down: memory, caches and a GPU are shared.
TEST(Measure, RunsThatDifferByMoreThanATenthAreNoTime) {
  ToldTimer wild([](size_t tactic, int run) {
    return Measurement{tactic == 1 ? 100 + 25.0 * (run % 40) : 200, false};
  });
  const auto times = measured(wild);
  EXPECT_FALSE(times[0].disturbed);
  EXPECT_TRUE(times[1].disturbed);
  ToldTimer calm([](size_t tactic, int run) {
    return Measurement{tactic == 1 && run < 6 ? 150 + 25.0 * run : 100 + run % 5, false};
  });
  const auto later = measured(calm);
  EXPECT_FALSE(later[1].disturbed) << "measured again";
  EXPECT_LE(later[1].microseconds, 101);
  constexpr backends::TimingPolicy of_gpu{.repeats = 1, .more_repeats = 6, .rounds = 1, .near = 1.25};
  ToldTimer shared([](size_t tactic, int run) { return Measurement{tactic == 1 ? 50 + 30.0 * run : 60, false}; });
  const auto on_gpu = measured(shared, of_gpu);
  EXPECT_FALSE(on_gpu[0].disturbed);
  EXPECT_TRUE(on_gpu[1].disturbed);
  ToldTimer tiny([](size_t, int run) { return Measurement{2 + 0.3 * (run % 4), false}; });
  EXPECT_FALSE(measured(tiny)[0].disturbed) << "less than a microsecond";
}

TEST(Compare, SaysWhetherMostRoundsAgree) {
  int calls = 0;
  const auto calm = [&] { return ++calls % 4 == 0 ? 300. : 100.; };
  const auto wild = [run = 0]() mutable { return 100. + 40 * (run++ % 9); };
  EXPECT_TRUE(compare(calm, [] { return 50.; }).steady);
  EXPECT_EQ(calls, 9);
  const Comparison both = compare(calm, wild);
  EXPECT_FALSE(both.steady);
  EXPECT_EQ(calls, 27) << "once more";
  EXPECT_EQ(both.one, 100);
  EXPECT_EQ(both.other, 260);
  int rounds = 0;
  const Comparison later = compare([&] { return ++rounds <= 9 ? 100. * rounds : 100; }, [] { return 50.; });
  EXPECT_TRUE(later.steady);
  EXPECT_EQ(later.one, 100);
}

TEST(Measure, DoesNotGoOnWithWhatIsFarBehind) {
  ToldTimer timer([](size_t tactic, int) { return Measurement{tactic == 1 ? 400 : 100.0, false}; });
  const auto times = measured(timer);
  EXPECT_EQ(timer.runs[0], policy.repeats);
  EXPECT_EQ(timer.runs[1], 2);
  EXPECT_EQ(times[1].microseconds, 400);
  EXPECT_FALSE(times[1].disturbed) << "what it takes on an idle machine is of no use to anybody";
  ToldTimer late([](size_t tactic, int run) {
    return Measurement{tactic == 0 ? 36 : run < 2 ? 400. * (run + 1) : 17, false};
  });
  EXPECT_EQ(measured(late)[1].microseconds, 17) << "two runs that differ say nothing";
  Allowance allowance;
  constexpr size_t ready[] = {0};
  for (const bool disturbed : {false, true}) {
    ToldTimer alone([&](size_t, int) { return Measurement{400, disturbed}; });
    EXPECT_EQ(measure(alone, ready, policy, false, 100, allowance)[0].disturbed, disturbed);
    EXPECT_EQ(alone.runs[0], disturbed ? 10 : 2) << "behind one that was timed before, perhaps in a quiet moment";
  }
}

TEST(Measure, TimesAgainWithinWhatIsAllowed) {
  constexpr size_t ready[] = {0};
  const auto runs_with = [&](Allowance& allowance) {
    ToldTimer timer([](size_t, int) { return Measurement{100, true}; });
    EXPECT_TRUE(measure(timer, ready, policy, false, plan::never, allowance)[0].disturbed);
    return timer.runs[0];
  };
  Allowance much, little{0};
  EXPECT_EQ(runs_with(much), 10) << "as long as the rest took";
  EXPECT_EQ(runs_with(little), 8) << "half as long, whatever the machine does";
  EXPECT_TRUE(little.is_spent());
  int more = 0;
  for (int problem = 0; problem < 20; ++problem) more += runs_with(little) - policy.repeats;
  EXPECT_LE(more, 20 * policy.repeats * Allowance::share + 1);
}

TEST(Measure, TriesNothingAgainOnAQuietMachine) {
  ToldTimer timer([](size_t tactic, int) { return Measurement{100.0 * (tactic + 1), false}; });
  measured(timer);
  EXPECT_EQ(timer.runs[0], policy.repeats);
  EXPECT_EQ(timer.runs[1], policy.repeats);
}

}  // namespace
}  // namespace tenon::compile
