// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

namespace tenon::tests {
namespace {

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

}  // namespace
}  // namespace tenon::tests
