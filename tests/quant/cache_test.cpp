// SPDX-License-Identifier: Apache-2.0
#include "quant/cache.h"

#include <gtest/gtest.h>
#include <tenon/error.h>

#include "ops/op.h"
#include "quant/trt_cache.h"

namespace tenon::quant {
namespace {

ir::Graph graph_of(const std::string& weight = "3.0", const std::string& activation = "relu") {
  ir::Graph graph = ir::parse(
      "graph \"g\"\ninput %x : f32[1,2,4,2]\n"
      "const %w : f32[2,2,1,1] = {1.0, 2.0, " +
      weight +
      ", 4.0}\n"
      "%a : f32[1,2,4,2] = Conv(%x, %w) {activation=\"" +
      activation +
      "\"}\n"
      "%b : f32[1,2,4,2] = Conv(%a, %w) {activation=\"relu\"}\n"
      "output %b as \"b\"\n");
  graph.tidy();
  ops::infer(graph);
  return graph;
}

Recipe recipe() {
  Recipe recipe;
  recipe.values = {{"x", {0.1f, 128}}, {"a", {1.f / 3, 0}}};
  recipe.factors["a"] = {3, 0.1f};
  recipe.anchors["a"] = {{0.01f, 1e-7f}, {0.5f, -0.25f}};
  recipe.anchors["b"] = {{0.7f, 0.3f}, {}};
  recipe.anchors["b"].changes = {1, -1, 0, 12};
  recipe.kept["c"] = "it is a \"test\"";
  recipe.error = 0.001;
  return recipe;
}

TEST(cache, reads_back_what_it_writes) {
  const ir::Graph graph = graph_of();
  const CacheKey key = key_of(graph, "letterbox", {});
  const CachedRecipe read = read_cache(write_cache(key, recipe()), key, graph);
  EXPECT_EQ(read.stale, "");
  EXPECT_TRUE(read.recipe.values == recipe().values);
  EXPECT_EQ(read.recipe.factors, recipe().factors);
  EXPECT_EQ(read.recipe.anchors.at("a").scales, recipe().anchors.at("a").scales);
  EXPECT_EQ(read.recipe.anchors.at("a").bias, recipe().anchors.at("a").bias);
  EXPECT_TRUE(read.recipe.anchors.at("b").bias.empty());
  EXPECT_TRUE(read.recipe.anchors.at("a").changes.empty());
  EXPECT_EQ(read.recipe.anchors.at("b").changes, recipe().anchors.at("b").changes);
  EXPECT_EQ(read.recipe.kept, recipe().kept);
}

TEST(cache, says_which_part_of_the_key_differs) {
  const ir::Graph graph = graph_of();
  const std::string text = write_cache(key_of(graph, "letterbox", {}), recipe());
  const auto stale = [&](const ir::Graph& other, const std::string& preprocessing, const CalibrationOptions& options) {
    const CachedRecipe read = read_cache(text, key_of(other, preprocessing, options), other);
    EXPECT_TRUE(read.stale.empty() || read.recipe.values.empty());
    return read.stale;
  };
  EXPECT_EQ(stale(graph, "letterbox", {}), "");
  EXPECT_EQ(stale(graph_of("3.5"), "letterbox", {}), "weights");
  EXPECT_EQ(stale(graph_of("3.0", "silu"), "letterbox", {}), "graph");
  EXPECT_EQ(stale(graph, "resize", {}), "preprocessing");
  EXPECT_EQ(stale(graph, "letterbox", {.count = 5}), "options");
}

TEST(cache, refuses_what_no_graph_can_use) {
  const ir::Graph graph = graph_of();
  const CacheKey key = key_of(graph, "", {});
  const std::string good = write_cache(key, recipe());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& bad :
       {std::string("{}"), std::string("[1"), good.substr(0, good.size() / 2), replaced("128", "256"),
        replaced("0.699", "-0.699"), replaced("\"x\"", "\"w\""), replaced("\"b\"", "\"z\""), replaced("nlmy", "nlm"),
        replaced("nlmy", "nlmz"), replaced("\"tenon_calibration\": 2", "\"tenon_calibration\": 3"),
        replaced("3.0,", "-3.0,"), replaced("0.5", "\"0.5\"")})
    EXPECT_THROW(read_cache(bad, key, graph), Error) << bad;
}

TEST(tensorrt_table, reads_names_and_bits) {
  const TensorRtTable table = parse_tensorrt_table(
      "TRT-7000-EntropyCalibration2\ndata: 3c008912\r\n(Unnamed Layer* 64) [Shuffle]: output: 3c010a14\nnone: 0\n");
  EXPECT_EQ(table.header, "TRT-7000-EntropyCalibration2");
  ASSERT_EQ(table.scales.size(), 2u);
  EXPECT_FLOAT_EQ(table.scales.at("data") * 127, 0.996338f);
  EXPECT_FLOAT_EQ(table.scales.at("(Unnamed Layer* 64) [Shuffle]: output") * 127, 1.000244f);
  EXPECT_EQ(parse_tensorrt_table(tensorrt_table(table.scales)).scales, table.scales);
}

TEST(tensorrt_table, refuses_other_text) {
  for (const char* bad : {"", "data: 3c008912\n", "TRT-1-MinMaxCalibration\ndata 3c008912", "TRT-1-X\nd: zz",
                          "TRT-1-X\nd: 3c00891299", "TRT-1-X\nd: 7f800000", "TRT-1-X\nd: bc008912",
                          "TRT-1-X\n: 3c008912"})
    EXPECT_THROW(parse_tensorrt_table(bad), Error) << bad;
}

TEST(tensorrt_table, makes_a_recipe_of_what_it_covers) {
  const ir::Graph graph = graph_of();
  const std::map<std::string, std::string> names{{"x", "data"}, {"a", "conv1"}};
  const ForeignRecipe whole = recipe_of({"", {{"data", 2.f / 127}, {"conv1", 6.f / 127}}}, graph, names);
  EXPECT_EQ(whole.covered, 2);
  EXPECT_EQ(whole.wanted, 2);
  EXPECT_NEAR(whole.recipe.values.at("x").scale, 4.f / 255, 1e-6);
  EXPECT_EQ(whole.recipe.values.at("a").zero, 0);  // behind a relu
  EXPECT_NEAR(whole.recipe.values.at("a").scale, 6.f / 255, 1e-6);
  const ForeignRecipe part = recipe_of({"", {{"data", 2.f / 127}}}, graph, names);
  EXPECT_EQ(part.covered, 1);
  EXPECT_EQ(part.recipe.kept.at("b"), "the calibration table does not cover its input");
  EXPECT_EQ(part.recipe.anchors.count("b"), 0u);
  EXPECT_EQ(part.recipe.values.count("a"), 0u);
}

}  // namespace
}  // namespace tenon::quant
