// SPDX-License-Identifier: Apache-2.0
#include "compile/packed_forms.h"

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "ops/op.h"

namespace tenon::compile {
namespace {

/// Convolutions of 3x3 by the same weights, "c0" and so on, of square maps of these sizes.
plan::Plan plan_of(const std::vector<int>& maps, int64_t channels) {
  const std::string c = std::to_string(channels);
  std::string text = "graph \"g\"\n", outputs;
  for (size_t at = 0; at < maps.size(); ++at) {
    const std::string size = std::to_string(maps[at]), number = std::to_string(at);
    text += "input %x" + number + " : f32[1," + size + "," + size + "," + c + "]\n";
    outputs += "output %c" + number + "\n";
  }
  text += "const %w : f32[1,1,1,1] = {1.0}\n";
  for (size_t at = 0; at < maps.size(); ++at) {
    const std::string size = std::to_string(maps[at]), number = std::to_string(at);
    text += "%c" + number + " : f32[1," + size + "," + size + "," + c + "] = Conv(%x" + number +
            ", %w) {kernel_shape=[3,3], layout=\"NHWC\", pads=[1,1,1,1]}\n";
  }
  plan::Plan plan;
  plan.graph = ir::parse(text + outputs);
  for (ir::Value& value : plan.graph.values)
    if (value.is_constant()) {
      value.constant = Tensor(DType::f32, {channels, channels, 3, 3});
      value.shape = ir::Shape{channels, channels, 3, 3};
    }
  plan.graph.tidy();
  ops::infer(plan.graph);
  for (size_t at = 0; at < maps.size(); ++at) plan.shapes["x" + std::to_string(at)] = {1, maps[at], maps[at], channels};
  return plan;
}

using Times = std::vector<plan::Candidate>;

/// The tactics that are chosen where these times are known of the convolutions.
std::vector<std::string> chosen(plan::Plan plan, const std::vector<Times>& times) {
  const auto schedule = [&] {
    return plan::schedule(plan, plan::concretise(plan.graph, plan.shapes), plan.threads, plan::Branches::sequential);
  };
  const backends::Schedule before = schedule();
  EXPECT_EQ(before.steps.size(), times.size());
  for (size_t at = 0; at < times.size(); ++at) plan.records[before.steps[at].key] = plan::record_of(times[at]);
  choose_packed_forms(plan);
  const backends::Schedule after = schedule();
  std::vector<std::string> tactics;
  for (const backends::ScheduledStep& step : after.steps) tactics.push_back(step.tactic);
  return tactics;
}

using Tactics = std::vector<std::string>;

TEST(PackedForms, AreSharedWhereThatCostsNextToNothing) {
  const Times large{{"winograd4", 1000}, {"winograd2", 1600}, {"direct", 3000}};
  const plan::Plan plan = plan_of({40, 10}, 256);
  EXPECT_EQ(chosen(plan, {large, {{"winograd2", 90}, {"winograd4", 95}, {"direct", 240}}}),
            (Tactics{"winograd4", "winograd4"}));
  EXPECT_EQ(chosen(plan, {large, {{"winograd2", 90}, {"winograd4", 120}, {"direct", 240}}}),
            (Tactics{"winograd4", "winograd2"}))
      << "it takes 30 microseconds of 1090 more";
  EXPECT_EQ(chosen(plan, {large, {{"winograd2", 90}, {"direct", 90.5}}}), (Tactics{"winograd4", "direct"}))
      << "which packs less";
}

TEST(PackedForms, OfSeveralStepsGoTogether) {
  const Times large{{"winograd4", 10000}, {"winograd2", 16000}};
  EXPECT_EQ(chosen(plan_of({40, 10, 6}, 256),
                   {large, {{"winograd2", 90}, {"winograd4", 95}}, {{"winograd2", 70}, {"winograd4", 80}}}),
            (Tactics{"winograd4", "winograd4", "winograd4"}))
      << "one step alone would save nothing";
}

TEST(PackedForms, OfLittleAreTheFastest) {
  EXPECT_EQ(
      chosen(plan_of({40, 10}, 64), {{{"winograd4", 1000}, {"direct", 3000}}, {{"winograd2", 9}, {"winograd4", 9.1}}}),
      (Tactics{"winograd4", "winograd2"}));
}

/// Taps of all three are what the direct kernel packs: 2.4 MB instead of 9.4, 4.2 and those.
TEST(PackedForms, OfTapsAreOneForAllKernels) {
  EXPECT_EQ(chosen(plan_of({40, 10, 5}, 256), {{{"winograd4", 10000}, {"winograd4_taps", 10040}},
                                               {{"winograd2", 90}, {"winograd2_taps", 95}},
                                               {{"direct", 60}, {"winograd2", 80}}}),
            (Tactics{"winograd4_taps", "winograd2_taps", "direct"}));
}

/// 151 MB of winograd4, 67 of winograd2.
TEST(PackedForms, ThatNoCacheHoldsComeFromMemory) {
  const Times times{{"winograd4", 3000}, {"winograd2", 3300}, {"direct", 9000}};
  EXPECT_EQ(chosen(plan_of({40}, 1024), {times}), Tactics{"winograd2"});
}

TEST(PackedForms, OfWhatWasNotTimedStayAsTheyAre) {
  plan::Plan plan = plan_of({40, 10}, 256);
  choose_packed_forms(plan);
  EXPECT_TRUE(plan.records.empty());
}

}  // namespace
}  // namespace tenon::compile
