// SPDX-License-Identifier: Apache-2.0
#include "explain/report.h"

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "engine/engine.h"
#include "ops/op.h"
#include "support/net.h"

namespace tenon::explain {
namespace {

using namespace test;

BuildOptions tuned() {
  BuildOptions options = quick_build();
  options.budget_seconds = -1;
  return options;
}

Report recorded(const Engine& engine) { return explain(plan_of(engine), {}, plan_of(engine).threads); }

std::string says(const Report& report, const std::string& node) {
  for (const Fate& fate : report.nodes)
    if (fate.name == node) return fate.rows.empty() ? fate.says : "step " + report.rows[fate.rows[0]].name;
  return "no entry";
}

/// A constant, an identity, a node nobody reads, a duplicate, a product and an activation.
std::string odd_net() {
  return model(input("x", {2, 4}) + random_weights("w", {4, 4}, 1) + node("same", "Identity", {"x"}, {"a"}) +
               node("negative", "Neg", {"w"}, {"v"}) + node("product", "MatMul", {"a", "v"}, {"b"}) +
               node("act", "Relu", {"b"}, {"c"}) + node("idle", "Exp", {"x"}, {"d"}) +
               node("flat", "Flatten", {"c"}, {"y"}, integer("axis", 1)) + output("y"));
}

TEST(Explain, EveryNodeOfTheModelHasAnEntry) {
  const Folder folder;
  const Report report = recorded(build_net(folder, odd_net()));
  ASSERT_EQ(report.nodes.size(), 6u);
  EXPECT_EQ(says(report, "same"), "remove_identity: drops nodes that give their input back; next is product");
  EXPECT_EQ(says(report, "negative"),
            "constant_folding: computes nodes whose inputs are all constant; next is product");
  EXPECT_EQ(says(report, "idle"), "no output depends on it");
  EXPECT_EQ(says(report, "product"), "step product");
  EXPECT_EQ(says(report, "act"), "step product");
  EXPECT_NE(says(report, "flat"), "no entry");
}

TEST(Explain, EveryCandidateHasATimeOrAReason) {
  const Folder folder;
  const Report report = recorded(build_net(folder, small_net(), tuned()));
  int timed = 0, refused = 0;
  for (const Row& row : report.rows) {
    EXPECT_FALSE(row.kernel.empty()) << row.name;
    for (const Candidate& candidate : row.candidates) {
      timed += candidate.microseconds > 0;
      refused += static_cast<bool>(candidate.refusal);
      EXPECT_TRUE(candidate.kernel == "ref" || candidate.microseconds > 0 || static_cast<bool>(candidate.refusal) ||
                  row.choices < 2)
          << row.name << " " << candidate.kernel;
    }
    if (row.choices > 1) {
      EXPECT_GT(row.alone, 0) << row.name;
    }
  }
  EXPECT_GT(timed, 0);
  EXPECT_GT(refused, 0);
}

TEST(Explain, AnEngineFileKnowsAsMuch) {
  const Folder folder;
  const Engine engine = build_net(folder, small_net(), tuned());
  engine.save(folder / "m.tenon");
  EXPECT_EQ(json(recorded(Engine::load(folder / "m.tenon"))), json(recorded(engine)));
}

TEST(Explain, CandidatesComeFromTheTimingCacheAsWell) {
  const Folder folder;
  BuildOptions options = tuned();
  options.timing_cache = folder / "cache.json";
  // Times that were disturbed, as by tests beside this one, do not enter the cache, and are taken again.
  constexpr int most_tries = 100;
  nlohmann::ordered_json first, second = json(recorded(build_net(folder, small_net(), options)));
  for (int tries = 0; tries < most_tries && first != second; ++tries) {
    first = std::move(second);
    second = json(recorded(build_net(folder, small_net(), options)));
  }
  EXPECT_EQ(second, first);
}

TEST(Explain, AProfileGivesTimesInTheNetwork) {
  const Folder folder;
  const Engine engine = build_net(folder, small_net());
  Session session = engine.session(2);
  const std::vector<Tensor> inputs{random_tensor({1, 3, 8, 8}, 9)};
  std::vector<Tensor> outputs(1);
  session.run(std::span<const Tensor>(inputs), outputs);
  const std::vector<LayerTime> layers = session.profile(inputs, 3);
  const Report report = explain(plan_of(engine), layers, 2);
  ASSERT_EQ(report.rows.size(), layers.size());
  double sum = 0;
  for (size_t at = 0; at < layers.size(); ++at) {
    EXPECT_EQ(report.rows[at].microseconds, layers[at].microseconds);
    EXPECT_EQ(report.rows[at].kernel, layers[at].tactic);
    sum += layers[at].microseconds;
  }
  EXPECT_DOUBLE_EQ(report.microseconds, sum);
}

/// A convolution of activations of 16 bits, what reads them as such and what makes them.
plan::Plan plan_of_int16() {
  plan::Plan plan;
  plan.graph = ir::parse(
      "graph \"g\"\ninput %x : f32[1,4,4,2]\nconst %w : i8[2,2,1,1] = {1, 2, 3, 4}\nconst %ws : f32[2] = {0.1, 0.2}\n"
      "const %s : f32[] = {0.5}\nconst %z : u16[] = {30000}\n"
      "%c : f32[1,4,4,2] = tenon:Int16Conv(%x, %w, _, _, %s, %z, %ws) {layout=\"NHWC\"} from [\"c\"]\n"
      "%r : f32[1,4,4,2] = Relu(%c) from [\"r\"]\n"
      "%q : u16[1,4,4,2] = QuantizeLinear(%r, %s, %z) from [\"q\"]\noutput %q as \"y\"\n");
  return plan;
}

TEST(Explain, ActivationsOf16BitsAreInt16) {
  const Report report = explain(plan_of_int16(), {}, 1);
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].arithmetic, "int16");
  EXPECT_EQ(report.rows[0].work.width, 2);
  EXPECT_EQ(report.rows[1].arithmetic, "fp32");
  EXPECT_EQ(report.rows[2].arithmetic, "int16");
  EXPECT_NE(text(report).find("int16"), std::string::npos);
}

TEST(Explain, AnEngineWithoutAListOfNodesSaysSo) {
  const Folder folder;
  plan::Plan plan = plan_of(build_net(folder, odd_net()));
  plan.sources.clear();
  const Report report = recorded(engine_of(std::move(plan)));
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_EQ(report.notes[0], "an earlier Tenon wrote the engine: nodes that were folded away are not listed");
  EXPECT_EQ(says(report, "act"), "step product");
  EXPECT_EQ(says(report, "idle"), "no entry");
}

/// A plan for a GPU that is nowhere: an image's convolution and a pool, with this record of both as one step.
plan::Plan plan_of_group(const plan::Record& record) {
  plan::Plan plan;
  plan.device = "cuda:99";
  ir::Graph& graph = plan.graph;
  const ir::ValueId x = graph.add_value("x", DType::f32, ir::Shape{1, 3, 16, 16});
  const ir::ValueId weights = graph.add_constant("w", random_tensor({8, 3, 3, 3}, 1));
  const ir::ValueId c = graph.apply(
      "Conv", {x, weights}, {{"layout", std::string("NHWC")}, {"input_layout", std::string("NCHW")}}, {"stem"}, "c");
  const ir::ValueId y = graph.apply("MaxPool", {c},
                                    {{"layout", std::string("NHWC")},
                                     {"kernel_shape", std::vector<int64_t>{3, 3}},
                                     {"strides", std::vector<int64_t>{2, 2}}},
                                    {"pool"}, "y");
  graph.inputs = {x}, graph.outputs = {y}, graph.output_names = {"y"};
  ops::infer(graph);
  const backends::Backend& gpu = backends::backend(plan.device);
  const ir::Graph fused = passes::with_groups(graph, passes::groups_of(graph, gpu.groups()));
  const plan::Layout layout = plan::lay_out(fused, false, false);
  plan.records[gpu.key(plan::problem_of(fused, 0, layout, 1, plan), nullptr)] = record;
  return plan;
}

TEST(Explain, AGroupIsARowOrACandidateOfItsLastNode) {
  const Report one = explain(plan_of_group({"both", 3, {{plan::unfused, 4}}}), {}, 1);
  ASSERT_EQ(one.rows.size(), 1u);
  EXPECT_EQ(one.rows[0].op, "tenon:ConvMaxPool");
  EXPECT_EQ(one.rows[0].origins, (std::vector<std::string>{"stem", "pool"}));
  EXPECT_EQ(one.rows[0].kernel, "both");
  ASSERT_EQ(one.rows[0].candidates.size(), 1u);
  EXPECT_EQ(one.rows[0].candidates[0].kernel, plan::unfused);

  const Report apart = explain(plan_of_group({plan::unfused, 3, {{"both", 4}}}), {}, 1);
  ASSERT_EQ(apart.rows.size(), 2u);
  EXPECT_TRUE(apart.rows[0].candidates.empty());
  ASSERT_EQ(apart.rows[1].candidates.size(), 1u);
  EXPECT_EQ(apart.rows[1].candidates[0].kernel, "both with stem");
  EXPECT_EQ(apart.rows[1].candidates[0].microseconds, 4);
}

}  // namespace
}  // namespace tenon::explain
