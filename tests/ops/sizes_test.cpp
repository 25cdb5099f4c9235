// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

namespace tenon::tests {
namespace {

using namespace std::string_literals;

TEST(Sizes, OfManyUnknownOnesCanBeReadBack) {
  std::string text = "graph \"many\"\ninput %x : f32[8]\n", operands;
  for (int at = 0; at < 90; ++at) {
    const std::string name = "%a_rather_long_name_of_a_value_" + std::to_string(at);
    text += name + " : i64 = NonZero(%x)\n";
    operands += (at ? ", " : "") + name;
  }
  text += "%y : i64 = Concat(" + operands + ") {axis=1}\noutput %y as \"y\"\n";
  ir::Graph graph = ir::parse(text);
  ops::infer(graph);
  const std::string printed = ir::print(graph);
  EXPECT_EQ(ir::print(ir::parse(printed)), printed);
}

TEST(EyeLike, MayLieBelowTheDiagonal) {
  ir::Graph graph = ir::parse("graph \"e\"\ninput %x : f32[2,3]\n%y : f32 = EyeLike(%x) {k=-1}\noutput %y as \"y\"\n");
  ops::infer(graph);
  const Tensor y = ops::interpret(graph, {Tensor(DType::f32, {2, 3})})[0];
  const std::vector<float> expected{0, 0, 0, 1, 0, 0};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), y.data<float>()));
}

/// The sizes that are inferred of y, and those that it has.
std::pair<std::string, Dims> sizes(const std::string& text, const Dims& x) {
  ir::Graph graph = ir::parse(text);
  ops::infer(graph);
  return {ir::str(*graph.value(graph.outputs[0]).shape), ops::interpret(graph, {Tensor(DType::f32, x)})[0].dims()};
}

TEST(Reshape, AnEmptyAxisThatIsCopiedLeavesTheOthers) {
  const auto text = [](const std::string& from, const std::string& to) {
    return "graph \"r\"\ninput %x : f32[" + from + "]\nconst %to : i64[3] = {" + to +
           "}\n%y : f32 = Reshape(%x, %to)\noutput %y as \"y\"\n";
  };
  using Sizes = std::pair<std::string, Dims>;
  EXPECT_EQ(sizes(text("0,6,4", "0,-1,8"), {0, 6, 4}), Sizes("[0,3,8]", Dims({0, 3, 8})));
  EXPECT_EQ(sizes(text("2,0,4", "-1,0,2"), {2, 0, 4}), Sizes("[4,0,2]", Dims({4, 0, 2})));
  EXPECT_EQ(sizes(text("N,6,4", "0,-1,8"), {0, 6, 4}), Sizes("[N,3,8]", Dims({0, 3, 8})));
}

TEST(Slice, MayBeginAtTheLowestInteger) {
  const std::string text =
      "graph \"s\"\ninput %x : f32[N,3]\nconst %a : i64[1] = {-9223372036854775808}\n"
      "const %b : i64[1] = {9223372036854775807}\n%y : f32 = Slice(%x, %a, %b)\noutput %y as \"y\"\n";
  EXPECT_EQ(sizes(text, {4, 3}), std::pair("[N,3]"s, Dims({4, 3})));
}

}  // namespace
}  // namespace tenon::tests
