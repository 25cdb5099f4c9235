// SPDX-License-Identifier: Apache-2.0
#include "plan/rest.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "ops/op.h"
#include "plan/blocks.h"
#include "plan/sizes.h"
#include "runtime/program.h"
#include "support/net.h"

/// What stands behind sizes that data decides runs as steps that the engine holds.
namespace tenon {
namespace {

using namespace test;

/// The rows of a product that hold something positive, through another product, and their number.
plan::Plan rows_plan() {
  plan::Plan plan;
  plan.graph = ir::parse(R"(graph "g"
input %x : f32[20,8]
const %w : f32[8,8] = @0
const %zero : i64[] = {0}
const %last : i64[1] = {8}
const %flat : i64[1] = {-1}
%a : ? = MatMul(%x, %w) from ["first"]
%b : ? = Relu(%a) from ["positive"]
%i : ? = NonZero(%b) from ["where"]
%r : ? = Gather(%i, %zero) {axis=0} from ["row"]
%g : ? = Gather(%a, %r) {axis=0} from ["rows"]
%p : ? = MatMul(%g, %w) from ["second"]
%s : ? = Shape(%r) from ["shape"]
%t : ? = Concat(%s, %last) {axis=0} from ["target"]
%q : ? = Reshape(%p, %t) from ["same"]
%y : ? = Sigmoid(%q) from ["y"]
%j : ? = NonZero(%y) from ["again"]
%k : ? = Cast(%j) {to=1} from ["cast"]
%n : ? = Reshape(%k, %flat) from ["flatten"]
output %y as "y"
output %n as "n"
)",
                         {random_tensor({8, 8}, 1)});
  ops::infer(plan.graph);
  plan.shapes = {{"x", {20, 8}}};
  return plan;
}

/// Made by hand from the reference of every node.
std::vector<Tensor> expected(const plan::Plan& plan, const Tensor& x) {
  std::vector<Tensor> values;
  for (const ir::Value& value : plan.graph.values) values.push_back(value.constant);
  values[static_cast<size_t>(plan.graph.inputs[0])] = x;
  for (const ir::Node& node : plan.graph.nodes) {
    std::vector<Tensor> operands;
    for (const ir::ValueId input : node.inputs) operands.push_back(values[static_cast<size_t>(input)]);
    values[static_cast<size_t>(node.outputs[0])] = ops::evaluate(node, operands)[0];
  }
  std::vector<Tensor> outputs;
  for (const ir::ValueId output : plan.graph.outputs) outputs.push_back(values[static_cast<size_t>(output)]);
  return outputs;
}

TEST(Rest, IsCutWhereDataDecidesSizes) {
  const plan::Plan plan = rows_plan();
  const plan::Planned part = plan::planned(plan::concretise(plan.graph, plan.shapes), plan);
  ASSERT_TRUE(part.graph && part.rest);
  EXPECT_EQ(part.graph->nodes.size(), 2u) << "what stands before is planned as ever";
  const auto rest = plan::rest_of(plan, *part.rest, {}, std::make_shared<backends::WeightCache>());
  ASSERT_EQ(rest->parts.size(), 4u);
  EXPECT_FALSE(rest->parts[0].planned);
  EXPECT_EQ(rest->parts[0].graph.nodes.size(), 1u) << "NonZero";
  ASSERT_TRUE(rest->parts[1].planned);
  EXPECT_EQ(rest->parts[1].graph.nodes.size(), 5u) << "all up to the next, but what says the sizes of a Reshape";
  EXPECT_FALSE(rest->parts[2].planned);
  EXPECT_TRUE(rest->parts[3].planned);
}

/// For other sizes than those that its steps were made for nothing is inferred or planned.
TEST(Rest, IsBoundByEvaluation) {
  const plan::Plan plan = rows_plan();
  const plan::Planned part = plan::planned(plan::concretise(plan.graph, plan.shapes), plan);
  const auto rest = plan::rest_of(plan, *part.rest, {}, std::make_shared<backends::WeightCache>());
  for (const plan::RestPart& one : rest->parts) {
    if (!one.planned) continue;
    const plan::Plan& own = one.planned->plan;
    const ir::Graph graph = plan::concretise(own.graph, own.shapes);
    const plan::Block block = plan::block_of(own, plan::make_steps(own, graph), graph, true);
    EXPECT_TRUE(plan::Sizes::of(own.graph, block.graph, block.layout));
  }
}

TEST(Rest, HasItsStepsInTheEngine) {
  plan::Plan plan = rows_plan();
  plan::make_steps(plan);
  ASSERT_EQ(plan.steps.at(0).rest.size(), 2u);
  const std::vector<plan::StepChoice>& steps = plan.steps[0].rest[0].steps;
  const auto product = std::find_if(steps.begin(), steps.end(), [](const auto& step) { return step.result == "p"; });
  ASSERT_NE(product, steps.end());
  EXPECT_NE(product->tactic, "ref");
  const Folder folder;
  const Engine engine = EngineAccess::make(std::make_shared<EngineAccess::Impl>(EngineAccess::Impl{.plan = plan}));
  engine.save(folder / "m.tenon");
  EXPECT_TRUE(plan_of(Engine::load(folder / "m.tenon")).steps == plan.steps);

  plan.records.clear();
  for (const std::string tactic : {"blocks", "direct"}) {
    for (plan::StepChoice& step : plan.steps[0].rest[0].steps)
      if (step.result == "p") step.tactic = tactic;
    plan::Shared shared;
    const plan::Bound bound = shared.bind(plan, plan.shapes, 1);
    const plan::RestPlan& behind = *bound.parts->parts[1].planned;
    const plan::Bound its = bound.parts->parts[1].planned->shared.bind(behind.plan, behind.plan.shapes, 1);
    EXPECT_TRUE(std::any_of(its.schedule->steps.begin(), its.schedule->steps.end(),
                            [&](const backends::ScheduledStep& step) { return step.tactic == tactic; }));
  }
}

TEST(Rest, RunsAtTheSizesThatComeAndPacksWeightsOnce) {
  plan::Plan plan = rows_plan();
  plan::make_steps(plan);
  plan::Shared shared;
  ThreadPool threads(2);
  runtime::Program program(plan, plan.shapes, threads, &shared);
  ASSERT_FALSE(program.is_static());
  size_t packed = 0;
  for (const unsigned seed : {1u, 2u, 3u, 1u}) {
    Tensor x = random_tensor({20, 8}, seed);
    if (seed == 3) std::fill_n(x.data<float>(), x.elements(), 0.f);  // no rows
    std::vector<Tensor> got(2);
    program.run(std::vector<Tensor>{x}, got);
    const std::vector<Tensor> wanted = expected(plan, x);
    for (size_t at = 0; at < got.size(); ++at) {
      ASSERT_EQ(got[at].dims().str(), wanted[at].dims().str());
      for (int64_t i = 0; i < got[at].elements(); ++i)
        ASSERT_NEAR(got[at].data<float>()[i], wanted[at].data<float>()[i], 1e-5) << at << ", " << i;
    }
    if (packed == 0) packed = shared.weights().count();
    EXPECT_EQ(shared.weights().count(), packed);
  }
}

}  // namespace
}  // namespace tenon
