// SPDX-License-Identifier: Apache-2.0
// Bodies as steps of a schedule.
#include <gtest/gtest.h>

#include "backends/cuda/runtime/compiler.h"
#include "backends/cuda/runtime/driver.h"
#include "engine/engine.h"
#include "explain/report.h"
#include "plan/blocks.h"
#include "runtime/program.h"
#include "support/loops.h"

using namespace tenon;
using namespace tenon::test;

namespace {

/// The step of the one node that runs bodies; nullptr where there is none.
const backends::ScheduledStep* step_with_blocks(const backends::Schedule& schedule) {
  for (const backends::ScheduledStep& step : schedule.steps)
    if (step.blocks) return &step;
  return nullptr;
}

}  // namespace

TEST(Blocks, AreScheduledTunedAndTimed) {
  const Folder folder;
  BuildOptions options = quick_build();
  options.budget_seconds = -1;
  const Engine engine = build_net(folder, loop_net(200, 9), options);
  const plan::Plan& plan = plan_of(engine);
  ThreadPool thread_pool(2);
  runtime::Program program(plan, plan.shapes, thread_pool);
  ASSERT_TRUE(program.is_static());
  const auto* step = step_with_blocks(program.executable()->schedule());
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->tactic, "lockstep");
  ASSERT_EQ(step->blocks->size(), 1u);
  const backends::Schedule& body = step->blocks->front();
  EXPECT_EQ(body.threads, 2);
  ASSERT_FALSE(body.steps.empty());
  for (const backends::ScheduledStep& inner : body.steps) EXPECT_NE(inner.tactic, "ref");
  EXPECT_NE(plan::record_of(plan, body.steps[0].problem), nullptr) << "not timed";

  const std::vector<LayerTime> layers = program.profile(std::vector<Tensor>{random_tensor({1, 200}, 1)}, 2);
  const auto inner = std::find_if(layers.begin(), layers.end(), [](const LayerTime& layer) {
    return layer.inside == "loop/" && layer.name.ends_with(" product");
  });
  ASSERT_NE(inner, layers.end());
  EXPECT_EQ(inner->rounds, 9);
  const explain::Report report = explain::explain(plan, layers, 2);
  EXPECT_TRUE(std::any_of(report.rows.begin(), report.rows.end(), [](const explain::Row& row) {
    return row.name == "loop/product" && row.rounds == 9 && row.microseconds > 0;
  }));
}

/// Their steps are the engine's: made in the build, kept in its file, and run whatever is recorded.
/// With buffers and operands, as all others.
TEST(Blocks, ArePrintedBehindTheirSteps) {
  const Folder folder;
  const Engine engine = build_net(folder, loop_net(200, 9), quick_build());
  const plan::Bound bound = EngineAccess::of(engine).shared.bind(plan_of(engine), plan_of(engine).shapes, 1);
  ASSERT_TRUE(bound.schedule);
  const std::string text = plan::print(*bound.schedule);
  const size_t block = text.find("\nblock    body of Loop ");
  ASSERT_NE(block, std::string::npos) << text;
  EXPECT_LT(text.find("\nstep "), block);
  EXPECT_LT(text.rfind(" loop ", block), block) << text;
  EXPECT_NE(text.find("\n  buffer   s0 at ", block), std::string::npos) << text;
  const size_t step = text.find("\n  step    0 ", block);
  ASSERT_NE(step, std::string::npos) << text;
  EXPECT_NE(text.find("\n            -> ", step), std::string::npos) << text;
}

TEST(Blocks, RunAsTheEngineSays) {
  const Folder folder;
  const Engine engine = build_net(folder, loop_net(200, 9));
  engine.save(folder / "m.tenon");
  plan::Plan plan = plan_of(Engine::load(folder / "m.tenon"));
  EXPECT_TRUE(plan.steps == plan_of(engine).steps);
  const auto found = std::find_if(plan.steps.at(0).steps.begin(), plan.steps[0].steps.end(),
                                  [](const plan::StepChoice& step) { return !step.blocks.empty(); });
  ASSERT_NE(found, plan.steps[0].steps.end());
  ASSERT_EQ(found->blocks.size(), 1u);
  plan.records.clear();
  ThreadPool thread_pool(2);
  for (const std::string tactic : {"blocks", "gemv", "direct"}) {
    found->blocks[0].steps[0].tactic = tactic;
    runtime::Program program(plan, plan.shapes, thread_pool);
    const auto* step = step_with_blocks(program.executable()->schedule());
    ASSERT_NE(step, nullptr);
    EXPECT_EQ(step->blocks->front().steps[0].tactic, tactic);
  }
  const plan::Steps whole = found->blocks[0];
  const auto error = [&] { return error_of([&] { runtime::Program(plan, plan.shapes, thread_pool); }); };
  found->blocks[0].steps.pop_back();
  EXPECT_EQ(error(), "bad_engine: the engine's steps are not those of its graph, a node has no step");
  found->blocks = {whole, whole};
  EXPECT_EQ(error(), "bad_engine: the engine's steps are not those of its graph, a node has other bodies");
}

/// What is small is not worth waiting for other threads.
TEST(Blocks, OfFewElementsRunOnOneThread) {
  const Folder folder;
  const Engine engine = build_net(folder, loop_net(16, 9));
  ThreadPool thread_pool(2);
  runtime::Program program(plan_of(engine), plan_of(engine).shapes, thread_pool);
  const auto* step = step_with_blocks(program.executable()->schedule());
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->blocks->front().threads, 1);
}

/// A session gives the same however its outputs are bound, and the state may lie where the result goes.
TEST(Blocks, WriteToBoundOutputs) {
  const Folder folder;
  for (const int64_t rounds : {1, 4, 5}) {
    const Engine engine = build_net(folder, loop_net(32, rounds));
    Session session = engine.session(2);
    const Tensor x = random_tensor({1, 32}, 7);
    std::vector<Tensor> expected(2);
    session.run(std::vector<Tensor>{x}, expected);
    const std::string y = bytes_of(expected[0]), ys = bytes_of(expected[1]);
    const Tensor state = x.copy(), scan(DType::f32, {rounds, 1, 32});
    session.bind_input("x", state);
    session.bind_output("y", state);
    session.bind_output("ys", scan);
    session.run();
    EXPECT_TRUE(bytes_of(state) == y) << rounds;
    EXPECT_TRUE(bytes_of(scan) == ys) << rounds;
  }
}

TEST(Blocks, OfABranchAreTakenByItsCondition) {
  const Folder folder;
  const Engine engine = build_net(folder, branch_net(48));
  Session session = engine.session(2);
  const Tensor x = random_tensor({1, 48}, 7);
  for (const uint8_t condition : {1, 0, 1}) {
    std::vector<Tensor> got(1);
    session.run(std::vector<Tensor>{x, Tensor::of<uint8_t>(DType::boolean, {}, std::vector<uint8_t>{condition})}, got);
    const bool negative = std::all_of(got[0].data<float>(), got[0].data<float>() + 48, [](float y) { return y <= 0; });
    EXPECT_EQ(negative, condition == 0);
  }
}

/// An engine file keeps bodies.
TEST(Blocks, SurviveAFile) {
  const Folder folder;
  const Engine engine = build_net(folder, loop_net(32, 5));
  engine.save(folder / "m.tenon");
  const std::vector<Tensor> inputs{random_tensor({1, 32}, 7)};
  std::vector<Tensor> before(2), after(2);
  Session first = engine.session(1), second = Engine::load(folder / "m.tenon").session(1);
  first.run(inputs, before);
  second.run(inputs, after);
  for (size_t at = 0; at < before.size(); ++at) EXPECT_TRUE(bytes_of(before[at]) == bytes_of(after[at])) << at;
}

TEST(Blocks, KeepToTheLimitOfRounds) {
  const Folder folder;
  BuildOptions options = quick_build();
  options.limits = Limits{.loop_rounds = 20};
  for (const int64_t size : {16, 200}) {
    const Engine engine = build_net(folder, loop_net(size, 30), options);
    Session session = engine.session(2);
    std::vector<Tensor> outputs(2);
    EXPECT_EQ(error_of([&] {
                session.run(std::vector<Tensor>{random_tensor({1, size}, 7)}, outputs);
              }),
              "resource: a loop runs longer than it may, it has run 20 iterations, including those of inner loops");
  }
}

/// The device counts as the host does, and is of use afterwards.
TEST(Blocks, OnAGpuKeepToTheLimitOfRounds) {
  if (!cuda::driver().why.empty()) GTEST_SKIP() << cuda::driver().why;
  if (!cuda::compiler().why.empty()) GTEST_SKIP() << cuda::compiler().why;
  const Folder folder;
  BuildOptions options = quick_build();
  options.limits = Limits{.loop_rounds = 20};
  const std::string net = while_net(16);
  const Engine on_host = build_net(folder, net, options);
  options.device = "cuda";
  const Engine engine = build_net(folder, net, options);
  Session session = engine.session(), host = on_host.session(1);
  const Tensor x = random_tensor({1, 16}, 7);
  const auto run = [&](Session& on, int64_t last) {
    std::vector<Tensor> outputs(1);
    on.run(std::vector<Tensor>{x, Tensor::of<int64_t>(DType::i64, {}, std::vector<int64_t>{last})}, outputs);
    return bytes_of(outputs[0]);
  };
  EXPECT_TRUE(run(session, 5) == run(host, 5));
  EXPECT_TRUE(run(session, 18) == run(host, 18));
  const std::string limit =
      "resource: a loop runs longer than it may, it has run 20 iterations, including those of inner loops";
  EXPECT_EQ(error_of([&] { run(host, 19); }), "none");
  EXPECT_EQ(error_of([&] { run(session, 19); }), "none");
  EXPECT_EQ(error_of([&] { run(host, 20); }), limit);
  EXPECT_EQ(error_of([&] { run(session, 20); }), limit);
  EXPECT_TRUE(run(session, 5) == run(host, 5));
}

TEST(Blocks, AreRefusedWhereTheyAreNestedTooDeep) {
  const Folder folder;
  const auto nested = [](int depth) {
    std::string body = node("innermost", "Neg", {"x"}, {"y0"}) + value(12, "y0", {4});
    for (int level = 1; level <= depth; ++level) {
      const std::string number = std::to_string(level);
      const std::string other = node("other" + number, "Abs", {"x"}, {"z" + number}) + value(12, "z" + number, {4});
      body =
          node("if" + number, "If", {"c"}, {"y" + number}, graph("then_branch", body) + graph("else_branch", other)) +
          value(12, "y" + number, {4});
    }
    return model(input("x", {4}) + input("c", {}, boolean) + body);
  };
  EXPECT_EQ(error_of([&] { build_net(folder, nested(16)); }), "none");
  EXPECT_NE(error_of([&] { build_net(folder, nested(17)); }).find("nested deeper than 16 levels"), std::string::npos);
}
