// SPDX-License-Identifier: Apache-2.0
#include "quant/structure.h"

#include <gtest/gtest.h>

#include "ops/op.h"

namespace tenon::quant {
namespace {

ir::Graph parsed(const std::string& text) {
  ir::Graph graph = ir::parse(text);
  graph.tidy();
  ops::infer(graph);
  return graph;
}

int group(const ir::Graph& graph, const Structure& structure, const std::string& name) {
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].name == name) return structure.group[id];
  ADD_FAILURE() << name;
  return -2;
}

bool is_integer(const ir::Graph& graph, const Structure& structure, const std::string& output) {
  for (size_t id = 0; id < graph.values.size(); ++id)
    if (graph.values[id].name == output) return structure.integer[graph.values[id].producer] != 0;
  return false;
}

constexpr const char* weights =
    "graph \"g\"\ninput %x : f32[1,2,4,4]\n"
    "const %w : f32[2,2,1,1] = {1.0, 2.0, 3.0, 4.0}\n";

TEST(structure, ties_what_elements_are_moved_between) {
  const ir::Graph graph = parsed(std::string(weights) +
                                 "const %w4 : f32[2,4,1,1] = {1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0}\n"
                                 "%a : f32[1,2,4,4] = Conv(%x, %w) {activation=\"relu\"}\n"
                                 "%b : f32[1,2,4,4] = Conv(%x, %w) {activation=\"relu\"}\n"
                                 "%p : f32[1,2,4,4] = MaxPool(%b) {kernel_shape=[1, 1]}\n"
                                 "%c : f32[1,4,4,4] = Concat(%a, %p) {axis=1}\n"
                                 "%d : f32[1,2,4,4] = Conv(%c, %w4) {activation=\"relu\"}\n"
                                 "output %d as \"d\"\n");
  const Structure structure = structure_of(graph);
  EXPECT_EQ(structure.groups, 2);
  EXPECT_GE(group(graph, structure, "x"), 0);
  EXPECT_EQ(group(graph, structure, "a"), group(graph, structure, "c"));
  EXPECT_EQ(group(graph, structure, "b"), group(graph, structure, "c"));
  EXPECT_EQ(group(graph, structure, "d"), -1);  // nothing reads it in integers
  EXPECT_TRUE(is_integer(graph, structure, "d"));
}

TEST(structure, leaves_bare_output_convolutions_and_expectations) {
  const ir::Graph graph = parsed(std::string(weights) +
                                 "%a : f32[1,2,4,4] = Conv(%x, %w) {activation=\"silu\"}\n"
                                 "%boxes : f32[1,2,4,4] = Conv(%a, %w)\n"
                                 "%soft : f32[1,2,4,4] = Softmax(%boxes) {axis=1}\n"
                                 "%mean : f32[1,2,4,4] = Conv(%soft, %w)\n"
                                 "%scores : f32[1,2,4,4] = Conv(%a, %w) {activation=\"sigmoid\"}\n"
                                 "%y : f32[1,4,4,4] = Concat(%mean, %scores) {axis=1}\n"
                                 "output %y as \"y\"\n");
  const Structure structure = structure_of(graph);
  EXPECT_TRUE(is_integer(graph, structure, "a"));
  for (const char* name : {"boxes", "mean", "scores"}) EXPECT_FALSE(is_integer(graph, structure, name)) << name;
  for (const char* name : {"a", "boxes", "soft", "mean", "scores"}) EXPECT_EQ(group(graph, structure, name), -1);
}

TEST(structure, quantises_sums_between_anchors_and_residuals) {
  const ir::Graph graph = parsed(std::string(weights) +
                                 "%a : f32[1,2,4,4] = Conv(%x, %w) {activation=\"relu\"}\n"
                                 "%b : f32[1,2,4,4] = Conv(%a, %w)\n"
                                 "%s : f32[1,2,4,4] = Add(%a, %b)\n"
                                 "%e : f32[1,2,4,4] = Exp(%s)\n"
                                 "%t : f32[1,2,4,4] = Mul(%s, %e)\n"
                                 "%r : f32[1,2,4,4] = Conv(%t, %w, _, %s) {residual=\"before\", activation=\"relu\"}\n"
                                 "output %r as \"r\"\n");
  const Structure structure = structure_of(graph);
  for (const char* name : {"a", "b", "s", "t"}) EXPECT_GE(group(graph, structure, name), 0) << name;
  EXPECT_EQ(group(graph, structure, "e"), -1);  // made in floating point for one optional reader
  EXPECT_NE(group(graph, structure, "a"), group(graph, structure, "b"));
}

TEST(structure, leaves_what_products_add_in_floating_point) {
  const ir::Graph graph = parsed(
      "graph \"g\"\ninput %x : f32[3,2]\nconst %w : f32[2,2] = {1.0, 2.0, 3.0, 4.0}\n"
      "%a : f32[3,2] = MatMul(%x, %w) {activation=\"relu\"}\n"
      "%s : f32[3,2] = Tanh(%x)\n"
      "%b : f32[3,2] = MatMul(%a, %w, _, %s) {residual=\"before\"}\n"
      "output %b as \"b\"\n");
  const Structure structure = structure_of(graph);
  EXPECT_TRUE(is_integer(graph, structure, "b"));
  EXPECT_GE(group(graph, structure, "a"), 0);
  EXPECT_EQ(group(graph, structure, "s"), -1);
}

TEST(structure, keeps_what_it_is_told_to) {
  const ir::Graph graph = parsed(std::string(weights) +
                                 "%a : f32[1,2,4,4] = Conv(%x, %w) {activation=\"relu\"}\n"
                                 "%b : f32[1,2,4,4] = Conv(%a, %w) {activation=\"relu\"}\n"
                                 "output %b as \"b\"\n");
  const Structure structure = structure_of(graph, {"too much error", ""});
  EXPECT_FALSE(is_integer(graph, structure, "a"));
  EXPECT_EQ(group(graph, structure, "x"), -1);
  EXPECT_TRUE(is_integer(graph, structure, "b"));
}

TEST(structure, keeps_bare_outputs_that_no_limit_holds) {
  const ir::Graph graph = parsed(std::string(weights) +
                                 "%a : f32[1,2,4,4] = Conv(%x, %w) {activation=\"relu\"}\n"
                                 "%b : f32[1,2,4,4] = Conv(%a, %w)\n"
                                 "output %b as \"b\"\n");
  const Structure alone = structure_of(graph);
  EXPECT_FALSE(is_integer(graph, alone, "b"));
  EXPECT_EQ(alone.reasons[1], bare_output);
  EXPECT_EQ(group(graph, alone, "a"), -1);
  const Structure judged = structure_of(graph, {"", while_it_holds});
  EXPECT_TRUE(is_integer(graph, judged, "b"));
  EXPECT_GE(group(graph, judged, "a"), 0);
}

TEST(quant_structure, takes_nodes_without_a_first_output) {
  const ir::Graph graph = ir::parse(
      "graph \"g\"\ninput %x : f32[4,1,2]\ninput %w : f32[1,8,2]\ninput %r : f32[1,8,2]\n"
      "_, %h : f32[1,1,2] = LSTM(%x, %w, %r) {hidden_size=2}\noutput %h as \"h\"\n");
  EXPECT_EQ(result_name(graph, graph.nodes[0]), "");
  EXPECT_EQ(structure_of(graph).groups, 0);
}

}  // namespace
}  // namespace tenon::quant
