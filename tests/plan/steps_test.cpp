// SPDX-License-Identifier: Apache-2.0
#include "plan/steps.h"

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "engine/engine.h"
#include "support/net.h"

/// What a build decides is what runs: from the engine's steps, not from its records.
namespace tenon {
namespace {

using namespace test;

class Steps : public ::testing::Test {
 protected:
  Steps() : engine_(build_net(folder_, small_net())) {}
  static Engine with(plan::Plan plan) {
    return EngineAccess::make(std::make_shared<EngineAccess::Impl>(EngineAccess::Impl{.plan = std::move(plan)}));
  }
  static Session ready(const Engine& engine, int threads = 1) { return engine.session(threads); }
  std::string error_with(const std::function<void(plan::Steps&)>& change) const {
    plan::Plan plan = plan_of(engine_);
    change(plan.steps.at(0));
    const Engine engine = with(std::move(plan));
    return error_of([&] { engine.session(1); });
  }
  static std::vector<std::string> tactics(const Engine& engine) {
    Session session = engine.session(1);
    std::vector<std::string> names;
    for (const LayerTime& layer : session.profile(std::vector<Tensor>{random_tensor({1, 3, 8, 8}, 1)}, 1))
      names.push_back(layer.tactic);
    return names;
  }

  Folder folder_;
  Engine engine_;
};

TEST_F(Steps, AreMadeInTheBuildAndComeBack) {
  const std::vector<plan::Steps>& steps = plan_of(engine_).steps;
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_GE(steps[0].steps.size(), 3u);
  EXPECT_EQ(steps[0].placement.empty(), false);
  engine_.save(folder_ / "m.tenon");
  EXPECT_TRUE(plan_of(Engine::load(folder_ / "m.tenon")).steps == steps);
}

TEST_F(Steps, RunAsTheySayWhateverIsRecorded) {
  plan::Plan plan = plan_of(engine_);
  plan.records.clear();
  const std::string before = tactics(engine_).back();
  for (const std::string other : {"blocks", "direct", "gemv"}) {
    plan.steps[0].steps.back().tactic = other;
    EXPECT_EQ(tactics(with(plan)).back(), other) << before;
  }
  plan.steps[0].steps.back().tactic = "kernel of tomorrow";
  EXPECT_EQ(tactics(with(plan)).size(), plan.steps[0].steps.size()) << "one that is not there is passed over";
}

TEST_F(Steps, ThatAreNotTheGraphsAreRefused) {
  const std::string what = "bad_engine: the engine's steps are not those of its graph, ";
  EXPECT_EQ(error_with([](plan::Steps&) {}), "none");
  EXPECT_EQ(error_with([](plan::Steps& s) { s.steps[1].result = "nobody"; }),
            what + "a step runs what is not there");
  EXPECT_EQ(error_with([](plan::Steps& s) { s.steps.push_back(s.steps[0]); }), what + "a node runs in two steps");
  EXPECT_EQ(error_with([](plan::Steps& s) { s.steps.pop_back(); }), what + "a node has no step");
  EXPECT_EQ(error_with([](plan::Steps& s) { std::swap(s.steps[0], s.steps[1]); }), what + "its steps are out of order");
  EXPECT_EQ(error_with([](plan::Steps& s) { s.placement[0] += 1000; }), what + "its memory is not that of its graph");
  EXPECT_EQ(error_with([](plan::Steps& s) { s.groups.push_back("x"); }), what + "a fusion group is not there");
}

/// Of another processor or version: planned once, from the records.
TEST_F(Steps, OfAnotherMakerAreMadeAnew) {
  EXPECT_EQ(error_with([](plan::Steps& s) {
              s.maker = "cpu avx1024, Tenon 9";
              s.steps[0].result = "nobody";
            }),
            "none");
}

TEST_F(Steps, WeightsArePackedOnceForSessionsSizesAndThreads) {
  const EngineAccess::Impl& impl = EngineAccess::of(engine_);
  Session one = engine_.session(1);
  const size_t packed = impl.shared.weights().count();
  EXPECT_GT(packed, 0u);
  Session two = engine_.session(2), other = engine_.session(1, {{"x", {5, 3, 8, 8}}});
  other.run({{"x", random_tensor({3, 3, 8, 8}, 1)}});
  EXPECT_EQ(impl.shared.weights().count(), packed);
}

/// `count` integers between -8 and 8, or the same as floats.
std::string numbers(int count, bool floats = false) {
  std::string text;
  for (int at = 0; at < count; ++at)
    text += (at ? "," : "") + std::to_string(at * 7 % 17 - 8) + (floats ? ".0" : "");
  return "{" + text + "}";
}

/// Windows of one channel each fill few places of kernels that multiply several channels at once.
TEST_F(Steps, WithoutTimesBytesOfOneChannelEachHaveTheKernelForThem) {
  plan::Plan plan;
  plan.graph = ir::parse(
      "graph \"g\" input %x : u8[1,9,9,4] const %s : f32[] = {0.5} const %z : u8[] = {3} "
      "const %w : i8[4,1,5,5] = " +
      numbers(100) +
      " %y : ? = tenon:Int8Conv(%x, %w, _, _, %s, %z, "
      "%s) {layout=\"NHWC\", pads=[2,2,2,2], group=4} from [\"d\"] output %y");
  plan.shapes = {{"x", {1, 9, 9, 4}}};
  const Engine engine = with(plan);
  plan::Bound bound = EngineAccess::of(engine).shared.bind(plan_of(engine), {{"x", {1, 9, 9, 4}}}, 1);
  ASSERT_EQ(bound.schedule->steps.own().size(), 1u);
  EXPECT_EQ(bound.schedule->steps.own()[0].tactic, "int8_depthwise");
}

/// Also by the kernels that pack in a way of their own.
TEST_F(Steps, EveryKernelPacksWeightsOnceForAllSizes) {
  const std::string graph = "graph \"g\" ", scales = "const %s : f32[] = {0.5} const %z : u8[] = {3} ";
  const std::string int8 = " = tenon:Int8Conv(%x, %w, _, _, %s, %z, %s) {layout=\"NHWC\", pads=[1,1,1,1]";
  // Weights of few inputs lie among those of states.
  const auto lstm = [](int inputs) {
    const std::string many = std::to_string(inputs);
    return "input %x : f32[T,N," + many + "] const %w : f32[1,16," + many + "] = " + numbers(16 * inputs, true) +
           " const %r : f32[1,16,4] = " + numbers(64, true) +
           " %y : ?, _, _ = LSTM(%x, %w, %r) {hidden_size=4} from [\"l\"] output %y";
  };
  struct Case {
    std::string text, tactic;
    std::vector<int64_t> sizes, others;
    size_t packed;
  };
  const Case cases[] = {
      {graph + "input %x : u8[N,H,W,4] " + scales + "const %w : i8[4,1,3,3] = " + numbers(36) + " %y : ?" + int8 +
           ", group=4} from [\"d\"] output %y",
       "int8_depthwise", {1, 5, 5, 4}, {2, 7, 6, 4}, 1},
      {graph + "input %x : u8[N,H,W,4] " + scales + "const %w : i8[4,4,3,3] = " + numbers(144) + " %y : ?" + int8 +
           "} from [\"c\"] output %y",
       "int8_winograd", {1, 5, 5, 4}, {2, 7, 6, 4}, 1},
      {graph + "input %x : f32[N,H,W,4] const %w : f32[4,2,3,3] = " + numbers(72, true) +
           " %y : ? = ConvTranspose(%x, %w) {layout=\"NHWC\"} from [\"t\"] output %y",
       "rows", {1, 5, 5, 4}, {2, 7, 6, 4}, 3},
      {graph + lstm(4), "steps", {3, 2, 4}, {5, 3, 4}, 1},
      {graph + lstm(12), "steps", {3, 2, 12}, {5, 3, 12}, 2}};
  for (const Case& one : cases) {
    plan::Plan plan;
    plan.graph = ir::parse(one.text);
    plan.shapes = {{"x", one.sizes}};
    const Engine engine = with(plan);
    const EngineAccess::Impl& impl = EngineAccess::of(engine);
    const auto tactic_of = [&](const std::vector<int64_t>& sizes, int threads, const std::string& wanted) {
      plan::Bound bound = impl.shared.bind(plan_of(engine), {{"x", sizes}}, threads);
      for (backends::ScheduledStep& step : bound.schedule->steps.own()) step.tactic = wanted;
      ThreadPool pool(threads);
      auto compiled = backends::host().compile(std::move(*bound.schedule), pool);
      EXPECT_EQ(impl.shared.weights().count(), one.packed) << one.tactic;
      return compiled;
    };
    const auto first = tactic_of(one.sizes, 1, one.tactic), second = tactic_of(one.others, 2, one.tactic);
  }
}

TEST_F(Steps, ArePrintedAsTheyRun) {
  plan::Plan plan;
  plan.graph = ir::parse(R"(graph "g"
input %x : f32[N,4]
const %w : f32[4,2] = {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0}
%a : f32[N,2] = MatMul(%x, %w) from ["product"]
%b : f32[N,2] = Softmax(%a) {axis=-1} from ["soft"]
%y : f32[N,4] = Concat(%a, %b) {axis=1} from ["both"]
output %y as "y"
)");
  plan.shapes = {{"x", {3, 4}}};
  const Engine engine = with(plan);
  plan::Bound bound = EngineAccess::of(engine).shared.bind(plan_of(engine), plan.shapes, 1);
  ASSERT_TRUE(bound.schedule);
  for (backends::ScheduledStep& step : bound.schedule->steps.own()) step.tactic = "one";
  EXPECT_EQ(plan::print(*bound.schedule), R"(buffer   arena 64 bytes
buffer   constants 32 bytes
buffer   input x f32[3,4]
buffer   s0 at 0, 48 bytes
output   y is s0
step    0 launch one                  MatMul product
          x f32[3,4], const w f32[4,2]
          -> s0 f32[3,2]/[4,1]
step    1 launch one                  Softmax soft
          s0 f32[3,2]/[4,1]
          -> s0+8 f32[3,2]/[4,1]
)");
  const plan::Bound larger = EngineAccess::of(engine).shared.bind(plan_of(engine), {{"x", {5, 4}}}, 1);
  ASSERT_TRUE(larger.schedule);
  const std::string printed = plan::print(*larger.schedule);
  EXPECT_NE(printed.find("x f32[5,4], const w f32[4,2]\n          -> s0 f32[5,2]/[4,1]\n"), std::string::npos)
      << printed;
}

TEST_F(Steps, AreOfKinds) {
  const auto kind = [](const char* op, bool on_host = false) {
    ir::Node node;
    node.op = op;
    backends::ScheduledStep step;
    if (on_host) step.host.emplace();
    return plan::name(plan::kind_of(node, step));
  };
  EXPECT_EQ(kind("Conv"), "launch");
  EXPECT_EQ(kind("Transpose"), "copy");
  EXPECT_EQ(kind("If"), "branch");
  EXPECT_EQ(kind("Scan"), "loop");
  EXPECT_EQ(kind("Unique", true), "call");
}

}  // namespace
}  // namespace tenon
