// SPDX-License-Identifier: Apache-2.0
#include "compile/latency_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/backend.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "quant/materialise.h"
#include "support/net.h"

namespace tenon::compile {
namespace {

/// Two convolutions in a row and one beside them.
ir::Graph three_convolutions() {
  ir::Graph graph = ir::parse(
      "graph \"g\"\ninput %x : f32[1,4,4,2]\n"
      "const %w : f32[2,2,1,1] = {1.0, 2.0, 3.0, 4.0}\n"
      "%a : f32[1,4,4,2] = Conv(%x, %w) {activation=\"relu\", layout=\"NHWC\"} from [\"first\"]\n"
      "%b : f32[1,4,4,2] = Conv(%a, %w) {activation=\"relu\", layout=\"NHWC\"} from [\"second\"]\n"
      "%c : f32[1,4,4,2] = Conv(%x, %w) {activation=\"relu\", layout=\"NHWC\"} from [\"beside\"]\n"
      "%y : f32[1,4,4,2] = Add(%b, %c) from [\"sum\"]\n"
      "output %y as \"y\"\n");
  graph.tidy();
  ops::infer(graph);
  return graph;
}

quant::Recipe everything() {
  quant::Recipe recipe;
  for (const char* name : {"x", "a"}) recipe.values[name] = quant::Quantiser::of({0, 255});
  for (const char* name : {"a", "b", "c"}) recipe.anchors[name] = {{0.1f, 0.2f}, {}};
  return recipe;
}

template <class Value>
std::vector<std::string> names(const std::map<std::string, Value>& map) {
  std::vector<std::string> list;
  for (const auto& [name, value] : map) list.push_back(name);
  return list;
}

using Names = std::vector<std::string>;

TEST(without, drops_an_anchor_and_what_only_it_reads) {
  const ir::Graph graph = three_convolutions();
  const quant::Recipe less = quant::without(graph, everything(), {{"b", "it is slow"}});
  EXPECT_EQ(names(less.anchors), (Names{"a", "c"}));
  EXPECT_EQ(names(less.values), Names{"x"});
  EXPECT_EQ(less.kept.at("b"), "it is slow");
}

TEST(without, keeps_values_that_others_read) {
  const quant::Recipe less = quant::without(three_convolutions(), everything(), {{"c", "it is slow"}});
  EXPECT_EQ(names(less.anchors), (Names{"a", "b"}));
  EXPECT_EQ(names(less.values), (Names{"a", "x"}));
}

TEST(without, leaves_pinned_anchors_and_old_reasons_alone) {
  quant::Recipe recipe = everything();
  recipe.pinned = {"a"};
  recipe.anchors.erase("c");
  recipe.kept["c"] = "the reason of before";
  const quant::Recipe less = quant::without(three_convolutions(), recipe, {{"a", "it is slow"}, {"b", "it is slow"}});
  EXPECT_EQ(names(less.anchors), Names{"a"});
  EXPECT_EQ(names(less.values), Names{"x"});
  EXPECT_EQ(less.kept.at("c"), "the reason of before");
}

/// Times differ from run to run; what must hold is that anchors only ever leave, and the plan is one of those made.
TEST(keep_faster, tries_fewer_anchors_each_turn_and_gives_a_plan_it_was_given) {
  const ir::Graph graph = three_convolutions();
  plan::Plan floats;
  floats.graph = graph;
  passes::lower(floats.graph);
  floats.threads = 1;
  std::vector<Names> tried;
  std::vector<std::string> made;
  const auto quantise = [&](const quant::Recipe& recipe) {
    tried.push_back(names(recipe.anchors));
    plan::Plan plan = floats;
    plan.graph = graph;
    quant::materialise(plan.graph, recipe);
    passes::lower(plan.graph);
    made.push_back(ir::print(plan.graph));
    return plan;
  };
  const LatencyCheck check = keep_faster(graph, floats, everything(), quantise);
  ASSERT_FALSE(tried.empty());
  EXPECT_EQ(tried[0], (Names{"a", "b", "c"}));
  for (size_t turn = 1; turn < tried.size(); ++turn) {
    EXPECT_LT(tried[turn].size(), tried[turn - 1].size());
    EXPECT_TRUE(std::includes(tried[turn - 1].begin(), tried[turn - 1].end(), tried[turn].begin(), tried[turn].end()));
  }
  EXPECT_NE(std::find(made.begin(), made.end(), ir::print(check.quantised.graph)), made.end());
  EXPECT_GT(check.float_us, 0);
  EXPECT_GT(check.int8_us, 0);
}

/// The three as a model that came quantised, lowered.
ir::Graph three_integers() {
  ir::Graph graph = three_convolutions();
  quant::materialise(graph, everything());
  passes::lower(graph);
  return graph;
}

std::map<std::string, std::string> operators(const ir::Graph& graph) {
  std::map<std::string, std::string> found;
  for (const ir::Node& node : graph.nodes)
    if (node.alive && (node.op == "Conv" || node.op == "tenon:Int8Conv")) found[node.origins[0]] = node.op;
  return found;
}

void expect_same_results(const ir::Graph& one, const ir::Graph& other) {
  Tensor x(DType::f32, {1, 4, 4, 2});
  for (int64_t at = 0; at < x.elements(); ++at) x.data<float>()[at] = static_cast<float>(at * 37 % 256);
  const Tensor a = ops::interpret(one, {x})[0], b = ops::interpret(other, {x})[0];
  for (int64_t at = 0; at < a.elements(); ++at) EXPECT_FLOAT_EQ(a.data<float>()[at], b.data<float>()[at]) << at;
}

/// At the sizes that the plans are for: the first axis is free, and only 8 of it fit.
TEST(latency_check, runs_at_the_sizes_of_the_plans) {
  plan::Plan plan;
  plan.graph = ir::parse(
      "graph \"g\"\ninput %x : f32[N,4]\nconst %to : i64[2] = {8, 4}\n%a : f32[N,4] = Relu(%x) from [\"first\"]\n"
      "%y : f32[8,4] = Reshape(%a, %to) from [\"second\"]\noutput %y as \"y\"\n");
  plan.graph.tidy();
  plan.threads = 1;
  plan.shapes["x"] = {8, 4};
  const auto [one, other] = benchmark(plan, plan);
  EXPECT_GT(one, 0);
  EXPECT_GT(other, 0);
}

TEST(kept_to_f32, puts_the_layers_named_into_floating_point) {
  using Found = std::map<std::string, std::string>;
  ir::Graph graph = three_integers();
  ASSERT_EQ(operators(graph),
            (Found{{"beside", "tenon:Int8Conv"}, {"first", "tenon:Int8Conv"}, {"second", "tenon:Int8Conv"}}));
  kept_to_f32(graph, {{"first", "fp32"}, {"second", "int8"}});
  EXPECT_EQ(operators(graph), (Found{{"beside", "tenon:Int8Conv"}, {"first", "Conv"}, {"second", "tenon:Int8Conv"}}));
  expect_same_results(three_integers(), graph);
}

TEST(kept_to_f32, names_what_is_no_layer_in_int8) {
  ir::Graph graph = three_integers();
  EXPECT_EQ(test::error_of([&] {
              kept_to_f32(graph, {{"sum", "fp32"}});
            }),
            "usage: no layer in INT8 is called \"sum\"");
}

/// Which layers are slower differs from run to run; what must hold is that all are tried, and that the plan is the one
/// given or one that was tuned, with its results.
TEST(slower_to_f32, tries_all_in_floating_point_and_gives_a_plan_that_was_tuned) {
  plan::Plan integers;
  integers.graph = three_integers();
  integers.threads = 1;
  std::vector<std::string> tuned{ir::print(integers.graph)};
  std::vector<size_t> widened;
  const plan::Plan plan = slower_to_f32(integers, [&](plan::Plan& one) {
    tuned.push_back(ir::print(one.graph));
    widened.push_back(0);
    for (const auto& [name, op] : operators(one.graph)) widened.back() += op == "Conv";
  });
  ASSERT_FALSE(widened.empty());
  EXPECT_EQ(widened[0], 3u);
  EXPECT_NE(std::find(tuned.begin(), tuned.end(), ir::print(plan.graph)), tuned.end());
  expect_same_results(three_integers(), plan.graph);
}

/// Beside a layer on bytes one on int16: either may be slower, but where the device's integers are fast only the
/// latter.
TEST(slower_to_f32, puts_int16_into_floating_point_with_the_same_results) {
  const char* const text =
      "graph \"g\"\ninput %x : f32[1,4,4,2]\nconst %w : i8[2,2,1,1] = {1, -2, 3, 4}\nconst %ws : f32[1] = {0.1}\n"
      "const %s : f32[] = {0.01}\nconst %z : u16[] = {30000}\nconst %t : f32[] = {0.5}\nconst %u : u8[] = {7}\n"
      "%a : u8[1,4,4,2] = tenon:Int16Conv(%x, %w, _, _, %s, %z, %ws, %t, %u) {layout=\"NHWC\"} from [\"first\"]\n"
      "%y : f32[1,4,4,2] = tenon:Int8Conv(%a, %w, _, _, %t, %u, %ws) {layout=\"NHWC\"} from [\"second\"]\n"
      "output %y as \"y\"\n";
  plan::Plan integers;
  integers.graph = ir::parse(text);
  integers.graph.tidy();
  ops::infer(integers.graph);
  integers.threads = 1;
  ir::Graph floats = integers.graph;
  kept_to_f32(floats, {{"first", "fp32"}});
  EXPECT_EQ(operators(floats), (std::map<std::string, std::string>{{"first", "Conv"}, {"second", "tenon:Int8Conv"}}));
  expect_same_results(integers.graph, floats);
  const bool fast = backends::host().capabilities(integers.device).fast_integers;
  std::vector<std::map<std::string, std::string>> tuned;
  slower_to_f32(integers, [&](plan::Plan& one) { tuned.push_back(operators(one.graph)); });
  ASSERT_FALSE(tuned.empty());
  EXPECT_EQ(tuned[0].at("first"), "Conv");
  EXPECT_EQ(tuned[0].at("second"), fast ? "tenon:Int8Conv" : "Conv");
}

}  // namespace
}  // namespace tenon::compile
