// SPDX-License-Identifier: Apache-2.0
#include "compile/choose.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/op.h"
#include "quant/structure.h"

namespace tenon::compile {
namespace {

constexpr int layers = 40;

/// A chain of convolutions c0, c1, ..., the last with an activation or without.
ir::Graph chain(bool bare) {
  std::string text = "graph \"g\"\ninput %x : f32[1,4,4,2]\nconst %w : f32[2,2,1,1] = {1.0, 2.0, 3.0, 4.0}\n";
  for (int at = 0; at < layers; ++at)
    text += "%c" + std::to_string(at) + " : f32[1,4,4,2] = Conv(%" + (at ? "c" + std::to_string(at - 1) : "x") +
            ", %w) {" + (bare && at + 1 == layers ? "" : "activation=\"relu\", ") + "layout=\"NHWC\"} from [\"c" +
            std::to_string(at) + "\"]\n";
  text += "output %c" + std::to_string(layers - 1) + " as \"y\"\n";
  ir::Graph graph = ir::parse(text);
  graph.tidy();
  ops::infer(graph);
  return graph;
}

/// Each layer saves one microsecond of a hundred, and costs `sensitivity[layer]` points.
struct World {
  ir::Graph graph;
  quant::Recipe recipe;
  std::vector<double> sensitivity;
  int made = 0, scored = 0;
  std::vector<std::set<std::string>> tried;
  double saves = 1;
  Objective objective = Objective::latency;
  std::function<double(const quant::Recipe&)> lost = {};  // instead of the sum of sensitivity
  std::function<std::string(const quant::Recipe&)> objection = {};
  double rounding_saves = 0, rounding_sensitivity = 0;    // of each layer in bf16, microseconds and points

  explicit World(std::vector<double> points, bool bare = false) : graph(chain(bare)), sensitivity(std::move(points)) {
    for (const ir::Node& node : graph.nodes) {
      const std::string& name = graph.value(node.outputs[0]).name;
      recipe.values[graph.value(node.inputs[0]).name] = quant::Quantiser::of({0, 255});
      recipe.anchors[name] = {{0.1f, 0.2f}, {}};
      recipe.evidence.layers.push_back({node.label(), true, "", sensitivity[std::stoul(node.label().substr(1))]});
    }
  }
  double drop(const quant::Recipe& how) const {
    if (lost) return lost(how);
    double sum = 0;
    for (const auto& [name, weights] : how.anchors)
      for (const ir::Node& node : graph.nodes)
        if (graph.value(node.outputs[0]).name == name) sum += sensitivity[std::stoul(node.label().substr(1))];
    return sum;
  }
  std::optional<LatencyCheck> run(double limit, plan::Search& search) {
    search.points = {{0, 90}};
    search.limit = limit;
    std::map<std::string, double> rounding;
    if (rounding_saves > 0) {
      for (const ir::Node& node : graph.nodes) rounding[graph.value(node.outputs[0]).name] = rounding_saves;
      const double all = rounding_sensitivity * layers;
      search.points = {{0.1, 90}, {0.1 - rounding_saves * layers / 1e3, 90 - all, all, all, all, 0, {}, false, "bf16"}};
    }
    LatencyCheck last;
    const auto make = [&](const quant::Recipe& how, const std::set<std::string>& rounded) {
      ++made;
      if (objective == Objective::size) return last = by_size(graph, how, {});
      last = {{}, 100, 100 - saves * static_cast<double>(how.anchors.size()), how, {}, {}};
      for (const auto& [name, weights] : how.anchors) last.saved[name] = saves - rounding_saves;
      for (const std::string& name : rounded)
        if (!how.anchors.count(name)) last.rounded.insert(name), last.int8_us -= rounding_saves;
      return last;
    };
    const auto score = [&](const plan::Plan&) {
      ++scored;
      const double lost = drop(last.recipe) + rounding_sensitivity * static_cast<double>(last.rounded.size());
      return Score{90 - lost, lost, lost - 0.1, lost + 0.1, objection ? objection(last.recipe) : ""};
    };
    return choose({graph, recipe, limit, objective, make, score, rounding}, search);
  }
};

TEST(choose, takes_a_bare_output_where_the_limit_holds) {
  World world(std::vector<double>(layers, 0.01), true);
  plan::Search search;
  const auto best = world.run(1, search);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->recipe.anchors.size(), size_t{layers});
  EXPECT_EQ(world.scored, 1);
}

TEST(choose, leaves_a_bare_output_before_all_others) {
  std::vector<double> points(layers, 0.01);
  points.back() = 5;
  World world(points, true);
  plan::Search search;
  const auto best = world.run(1, search);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->recipe.anchors.size(), size_t{layers} - 1);
  EXPECT_FALSE(best->recipe.anchors.count("c" + std::to_string(layers - 1)));
  EXPECT_EQ(world.scored, 2);
}

TEST(choose, takes_the_most_bytes_where_the_engine_is_to_be_small) {
  World world(std::vector<double>(layers, 0.1));
  world.objective = Objective::size;
  plan::Search search;
  const auto best = world.run(1, search);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->recipe.anchors.size(), 10u);
  EXPECT_EQ(best->saved.begin()->second, 4 * 3);  // of four weights
  EXPECT_EQ(search.points[0].milliseconds, 0);
  EXPECT_NE(search.why.find("has the smallest weights"), std::string::npos) << search.why;
}

TEST(choose, says_how_much_time_a_layer_held_back_would_save) {
  std::vector<double> points(layers, 0.001);
  points[3] = 5;
  World world(std::move(points));
  plan::Search search;
  const auto best = world.run(0.1, search);
  ASSERT_TRUE(best);
  ASSERT_FALSE(best->recipe.kept.empty());
  EXPECT_EQ(best->recipe.kept.begin()->second, "in INT8 it costs too much accuracy for the 1.0 us it saves");
}

TEST(choose, takes_everything_at_once_where_that_loses_little_enough) {
  World world(std::vector<double>(layers, 0.001));
  plan::Search search;
  const auto best = world.run(0.1, search);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->recipe.anchors.size(), static_cast<size_t>(layers));
  EXPECT_EQ(world.scored, 1);
  ASSERT_EQ(search.points.size(), 2u);
  EXPECT_TRUE(search.points[1].chosen);
  EXPECT_DOUBLE_EQ(search.points[0].milliseconds, 0.1);
  EXPECT_DOUBLE_EQ(search.points[1].milliseconds, 0.06);
  EXPECT_EQ(search.points[0].floats.size(), static_cast<size_t>(layers));
}

/// Nothing is lost by the measure, but scores fall as long as one layer is in INT8.
TEST(choose, takes_nothing_that_is_objected_to) {
  std::vector<double> sensitivity(layers, 0.001);
  sensitivity[7] = 1;
  World world(sensitivity);
  world.lost = [](const quant::Recipe&) { return 0.05; };
  const std::string seventh = world.graph.value(world.graph.nodes[7].outputs[0]).name;
  world.objection = [&](const quant::Recipe& how) -> std::string {
    return how.anchors.count(seventh) ? "scores fall" : "";
  };
  plan::Search search;
  const auto best = world.run(0.1, search);
  ASSERT_TRUE(best);
  EXPECT_FALSE(best->recipe.anchors.count(seventh));
  EXPECT_GT(best->recipe.anchors.size(), 1u);
  EXPECT_EQ(search.points[1].objection, "scores fall");
  EXPECT_FALSE(search.points[1].chosen);
}

/// Three layers do the sensitivity: they and no other must leave.
TEST(choose, leaves_out_the_harmful_layers_alone) {
  std::vector<double> sensitivity(layers, 0.001);
  sensitivity[5] = 3, sensitivity[17] = 2, sensitivity[30] = 1;
  World world(sensitivity);
  plan::Search search;
  const auto best = world.run(0.1, search);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->recipe.anchors.size(), static_cast<size_t>(layers - 3));
  EXPECT_LE(world.drop(best->recipe), 0.1);
  EXPECT_LE(world.scored, 7);
  std::vector<std::string> floats;
  for (const plan::SearchPoint& point : search.points)
    if (point.chosen) floats = point.floats;
  EXPECT_EQ(floats, (std::vector<std::string>{"c5", "c17", "c30"}));
}

/// Sensitivity alone says nothing of how many must leave: bisection finds it.
TEST(choose, finds_how_many_layers_must_leave) {
  World world(std::vector<double>(layers, 0.1));
  world.lost = [](const quant::Recipe& how) { return how.anchors.size() > 17 ? 1.0 : 0.0; };
  plan::Search search;
  const auto best = world.run(0.1, search);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->recipe.anchors.size(), 17u);
  EXPECT_LE(world.scored, 7);
}

TEST(choose, keeps_to_seven_scores_and_the_limit_whatever_the_harm) {
  for (const double limit : {0.05, 1.0, 7.0, 19.0}) {
    std::vector<double> sensitivity;
    for (int at = 0; at < layers; ++at) sensitivity.push_back(std::fmod(0.37 * (at + 1), 1.0));
    World world(sensitivity);
    plan::Search search;
    const auto best = world.run(limit, search);
    EXPECT_LE(world.scored, 7);
    int chosen = 0;
    for (const plan::SearchPoint& point : search.points) {
      chosen += point.chosen;
      if (point.chosen) {
        EXPECT_LE(point.drop, limit);
      }
      if (best && point.drop <= limit) {
        EXPECT_GE(point.milliseconds * 1e3, best->int8_us - 1e-9);
      }
    }
    EXPECT_EQ(chosen, 1);
    EXPECT_EQ(best.has_value(), !search.points[0].chosen);
  }
}

TEST(choose, stays_with_floating_point_where_int8_is_slower) {
  World world(std::vector<double>(layers, 0.0));
  world.saves = -1;
  plan::Search search;
  EXPECT_FALSE(world.run(0.1, search));
  EXPECT_EQ(world.scored, 0);
  EXPECT_TRUE(search.points[0].chosen);
  EXPECT_EQ(search.why, "INT8 is not faster: 0.140 ms against 0.100 ms");
}

TEST(choose, rounds_part_of_the_layers_where_all_of_them_lose_too_much) {
  World world(std::vector<double>(layers, 5));
  world.rounding_saves = 0.5, world.rounding_sensitivity = 0.05;
  plan::Search search;
  const auto best = world.run(1, search);
  ASSERT_TRUE(best);
  EXPECT_TRUE(best->recipe.anchors.empty());
  EXPECT_GE(best->rounded.size(), 17u);
  EXPECT_LE(best->rounded.size(), 20u);  // a twentieth of a point each
  EXPECT_LE(world.scored, 7);
  EXPECT_EQ(std::count_if(search.points.begin(), search.points.end(), [](const auto& point) { return point.chosen; }),
            1);
  for (const plan::SearchPoint& point : search.points)
    if (point.chosen) {
      EXPECT_EQ(point.rest, std::to_string(best->rounded.size()) + " bf16");
    }
}

TEST(choose, rounds_what_int8_harms_beside_what_they_do_not) {
  std::vector<double> sensitivity(layers, 0.001);
  for (int at = 0; at < 10; ++at) sensitivity[static_cast<size_t>(at)] = 5;
  World world(sensitivity);
  world.rounding_saves = 0.5, world.rounding_sensitivity = 0.0001;
  plan::Search search;
  const auto best = world.run(0.1, search);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->recipe.anchors.size(), 30u);
  EXPECT_EQ(best->rounded.size(), 10u);
}

TEST(choose, takes_all_in_bf16_where_that_is_the_fastest_within_the_limit) {
  std::vector<double> sensitivity(layers, 5);
  sensitivity[0] = 0.01;
  World world(sensitivity);
  world.rounding_saves = 0.9, world.rounding_sensitivity = 0.001;
  world.saves = 0.91;
  world.lost = [](const quant::Recipe& how) { return how.anchors.empty() ? 0 : 5; };
  plan::Search search;
  EXPECT_FALSE(world.run(0.1, search));
  EXPECT_TRUE(search.points[1].chosen);
}

TEST(choose, leaves_pinned_layers_in_int8) {
  std::vector<double> sensitivity(layers, 0.001);
  sensitivity[5] = 3, sensitivity[17] = 2;
  World world(sensitivity);
  const std::string held = world.graph.value(world.graph.nodes[5].outputs[0]).name;
  world.recipe.pinned = {held};
  plan::Search search;
  EXPECT_FALSE(world.run(0.1, search));
  for (size_t at = 1; at < search.points.size(); ++at)
    EXPECT_EQ(std::count(search.points[at].floats.begin(), search.points[at].floats.end(), "c5"), 0);
}

}  // namespace
}  // namespace tenon::compile
