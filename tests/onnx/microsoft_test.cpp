// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/import.h"
#include "ops/op.h"
#include "support/proto.h"

/// Operators of com.microsoft by numbers that were computed by hand. tests/models/microsoft_operators.py compares more
/// of them with ONNX Runtime.
namespace tenon::microsoft_test {
namespace {

using namespace test;

const std::string microsoft = field(7, "com.microsoft");

std::string real(const char* name, float value) {
  return field(5, field(1, name) + varint(2 << 3 | 5) + raw<float>({value}) + field(20, 1));
}
std::string floats(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  return tensor(name, f32, dims, raw(values));
}
std::string bytes(const std::string& name, const std::vector<int64_t>& dims, const std::vector<uint8_t>& values) {
  return tensor(name, u8, dims, raw(values));
}

ir::Graph import(const std::string& graph) {
  const std::string bytes = model(graph);
  return onnx::import_bytes(std::as_bytes(std::span(bytes)), "", "m", nullptr, {});
}

/// Output 0 of a graph for one input of f32.
std::vector<float> run(const std::string& graph, const Dims& dims, const std::vector<float>& values) {
  ir::Graph imported = import(graph);
  ir::verify(imported);
  ops::infer(imported);
  const Tensor result = ops::interpret(imported, {Tensor::of<float>(DType::f32, dims, values)})[0];
  return {result.data<float>(), result.data<float>() + result.elements()};
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Node& node : graph.nodes) names.emplace_back(node.op.str());
  return names;
}

TEST(Microsoft, MultipliesTransposedTimesANumber) {
  const std::string graph =
      input("x", {1, 2}) + floats("w", {2, 2}, {1, 2, 3, 4}) +
      node("n", "FusedMatMul", {"x", "w"}, {"y"}, integer("transB", 1) + real("alpha", 0.5f) + microsoft) + output("y");
  EXPECT_EQ(run(graph, {1, 2}, {1, 10}), (std::vector<float>{10.5f, 21.5f}));
}

TEST(Microsoft, GivesTheSumBesideItsNorm) {
  const std::string graph =
      input("x", {1, 1, 2}) + floats("s", {1, 1, 2}, {0, 2}) + floats("g", {2}, {1, 1}) + floats("b", {2}, {0, 0}) +
      floats("more", {2}, {1, 3}) +
      node("n", "SkipLayerNormalization", {"x", "s", "g", "b", "more"}, {"norm", "", "", "y"}, microsoft) +
      output("y") + output("norm");
  EXPECT_EQ(run(graph, {1, 1, 2}, {1, 1}), (std::vector<float>{2, 6}));
}

/// The bias of a product stays beside it, where the product takes it along.
TEST(Microsoft, AddsABiasToTheProduct) {
  const ir::Graph graph =
      import(input("x", {1, 1, 2}) + floats("w", {2, 2}, {1, 0, 0, 1}) + floats("g", {2}, {1, 1}) +
             floats("b", {2}, {1, 3}) + node("m", "MatMul", {"x", "w"}, {"p"}) +
             node("n", "SkipSimplifiedLayerNormalization", {"x", "p", "g", "b"}, {"y"}, microsoft) + output("y"));
  EXPECT_EQ(ops_of(graph), (std::vector<std::string>{"MatMul", "Add", "Add", "RMSNormalization"}));
  EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[0].outputs[0]);
}

/// One head of one number: the second query sees the first key, the first sees its own alone.
TEST(Microsoft, AttendsToWhatCameBefore) {
  const std::string graph =
      input("x", {1, 2, 1}) + floats("w", {1, 3}, {0, 0, 1}) +
      node("n", "Attention", {"x", "w"}, {"y"}, integer("num_heads", 1) + integer("unidirectional", 1) + microsoft) +
      output("y");
  EXPECT_EQ(run(graph, {1, 2, 1}, {2, 6}), (std::vector<float>{2, 4}));
}

TEST(Microsoft, LeavesOutKeysThatAreMasked) {
  const std::string graph =
      input("x", {1, 2, 1}) + floats("w", {1, 3}, {0, 0, 1}) + tensor("m", i32, {1, 2}, raw<int32_t>({0, 1})) +
      node("n", "Attention", {"x", "w", "", "m"}, {"y"}, integer("num_heads", 1) + microsoft) + output("y");
  EXPECT_EQ(run(graph, {1, 2, 1}, {2, 6}), (std::vector<float>{6, 6}));
}

/// One key behind two of the past, of which the cache holds the second: the oldest of the window of two is that.
TEST(Microsoft, PutsKeysBehindThoseOfTheCache) {
  const std::string past = floats("p", {1, 1, 2, 1}, {4, 8});
  const auto step = [&](const std::string& attributes) {
    return input("x", {1, 1, 1}) + floats("q", {1, 1, 1}, {0}) + past + tensor("l", i32, {1}, raw<int32_t>({2})) +
           tensor("t", i32, {}, raw<int32_t>({3})) +
           node("n", "GroupQueryAttention", {"q", "x", "x", "p", "p", "l", "t"}, {"y", "k"},
                integer("num_heads", 1) + integer("kv_num_heads", 1) + attributes + microsoft) +
           output("y") + output("k");
  };
  EXPECT_EQ(run(step(""), {1, 1, 1}, {3}), std::vector<float>{5});
  EXPECT_EQ(run(step(integer("local_window_size", 2)), {1, 1, 1}, {3}), std::vector<float>{5.5f});
}

/// Two integers of four bits a byte, the lower half first; their zero is 8.
TEST(Microsoft, UnpacksTheRowsThatItPicks) {
  std::vector<uint8_t> table(24, 0x88);
  table[8] = 0x9a;
  const std::string graph = input("x", {1}) + numbers("at", {1}) + bytes("w", {3, 8}, table) +
                            floats("s", {3, 1}, {1, 0.5f, 1}) +
                            node("n", "GatherBlockQuantized", {"w", "at", "s"}, {"r"},
                                 integer("block_size", 16) + integer("quantize_axis", 1) + microsoft) +
                            node("a", "Add", {"r", "x"}, {"y"}) + output("y");
  std::vector<float> expected(16, 0);
  expected[0] = 1, expected[1] = 0.5f;
  EXPECT_EQ(run(graph, {1}, {0}), expected);
}

TEST(Microsoft, TakesWeightsOfTwoBits) {
  const std::string graph =
      input("x", {1, 16}) + bytes("w", {1, 1, 4}, {0x1b, 0xaa, 0xaa, 0xaa}) + floats("s", {1}, {2}) +
      node("n", "MatMulNBits", {"x", "w", "s"}, {"y"},
           integer("K", 16) + integer("N", 1) + integer("bits", 2) + integer("block_size", 16) + microsoft) +
      output("y");
  std::vector<float> x(16, 1);
  x[0] = 1, x[1] = 10, x[2] = 100, x[3] = 1000;  // times 3, 2, 1 and 0, less 2
  EXPECT_EQ(run(graph, {1, 16}, x), std::vector<float>{2 * (1 + 0 - 100 - 2000)});
}

/// Inference comes again when sizes are chosen, in bodies, too.
TEST(Microsoft, LeavesBodiesWithoutSizes) {
  const ir::Graph graph = import(input("x", {-1, 4}) + input("c", {}, boolean) + zeros("w", {4, 4}) +
                                 node("m", "MatMul", {"x", "w"}, {"r"}) +
                                 node("n", "FusedMatMul", {"r", "r"}, {"p"}, integer("transB", 1) + microsoft) +
                                 node("i", "If", {"c"}, {"y"},
                                      test::graph("then_branch", node("t", "Relu", {"r"}, {"o"}) + output("o")) +
                                          test::graph("else_branch", node("e", "Abs", {"p"}, {"o"}) + output("o"))) +
                                 output("y"));
  const ir::GraphRef body = graph.nodes.back().graph("then_branch");
  for (const ir::ValueId value : body->inputs) EXPECT_FALSE(body->value(value).shape);
}

/// The rank of what a product gives is nowhere declared.
TEST(Microsoft, InfersRanksOnTheWay) {
  const ir::Graph graph =
      import(input("x", {-1, -2, 4}) + zeros("w", {4, 6}) + node("m", "MatMul", {"x", "w"}, {"p"}) +
             node("n", "FusedMatMul", {"p", "p"}, {"y"}, integer("transB", 1) + microsoft) + output("y"));
  EXPECT_EQ(ops_of(graph), (std::vector<std::string>{"MatMul", "Transpose", "MatMul"}));
  EXPECT_EQ(graph.nodes[1].integers("perm"), (std::vector<int64_t>{0, 2, 1}));
  for (const ir::Node& node : graph.nodes) EXPECT_FALSE(graph.value(node.outputs[0]).shape);  // sizes come later
}

}  // namespace
}  // namespace tenon::microsoft_test
