// SPDX-License-Identifier: Apache-2.0
#include "plan/body_plans.h"

#include <gtest/gtest.h>

#include "compile/tune.h"
#include "ops/op.h"
#include "support/net.h"

/// Bodies that are no blocks of the steps around them are tuned as the rest of a network is.
namespace tenon::plan {
namespace {

using namespace test;

/// A branch one of whose bodies does not fit its operands, so that no steps are made of the two.
Plan branch_plan() {
  Plan plan;
  plan.graph = ir::parse(R"(graph "g"
input %c : bool[]
input %x : f32[1,size,12,16]
%y : ? = If(%c, %x) {captures=1, then_branch={
  graph "yes"
  input %x : ?
  const %w : f32[16,16,3,3] = @0
  %y : ? = Conv(%x, %w) {layout="NHWC", pads=[1, 1, 1, 1]}
  output %y as "y"
}, else_branch={
  graph "no"
  input %x : ?
  const %sizes : i64[2] = {12, 64}
  %y : ? = Reshape(%x, %sizes)
  output %y as "y"
}}
output %y as "y"
)",
                         {random_tensor({16, 16, 3, 3}, 1)});
  ops::infer(plan.graph);
  plan.shapes["x"] = {1, 12, 12, 16};
  return plan;
}

TEST(BodyPlans, HaveTheSizesOfTheirOperands) {
  const Plan plan = branch_plan();
  const ir::Graph concrete = concretise(plan.graph, plan.shapes);
  const std::vector<Plan> bodies = body_plans(plan, concrete);
  ASSERT_EQ(bodies.size(), 1u) << "the other does not hold so many elements";
  EXPECT_EQ(bodies[0].shapes, (Shapes{{"x", {1, 12, 12, 16}}}));
}

TEST(BodyPlans, AreTuned) {
  Plan plan = branch_plan();
  compile::Disturbed disturbed;
  EXPECT_GE(compile::tune(plan, {}, disturbed, -1, {}).tactics, 3);
  ASSERT_EQ(plan.records.size(), 1u);
  EXPECT_NE(plan.records.begin()->first.find("Conv f32:1x12x12x16"), std::string::npos) << plan.records.begin()->first;
}

}  // namespace
}  // namespace tenon::plan
