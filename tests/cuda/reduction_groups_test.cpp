// SPDX-License-Identifier: Apache-2.0
// Fusion groups as one node of a plan for a GPU: reductions with the elementwise node in front of them, and max pools
// of several windows.
#include "group_nets.h"

namespace tenon::tests {
namespace {

ir::ValueId reduced(Net& net, const char* op, ir::ValueId x, const std::vector<int64_t>& axes) {
  const Dims size{static_cast<int64_t>(axes.size())};
  const ir::ValueId along = net.graph.add_constant("", Tensor::of<int64_t>(DType::i64, size, axes));
  return net.graph.apply(op, {x, along}, {{"keepdims", int64_t{0}}}, {op}, op);
}
ir::ValueId widened(Net& net) {
  return net.graph.apply("Cast", {net.input(5, 16)}, {{"to", int64_t{1}}}, {"wide"}, "wide");
}

TEST(ElementwiseReductions, AreFoundWhereNobodyElseReadsWhatIsReduced) {
  const auto mean_of_squares = [](bool is_shared, const std::vector<int64_t>& axes) {
    Net net;
    const ir::ValueId x = widened(net), square = net.graph.apply("Mul", {x, x}, {}, {"square"}, "square");
    const ir::ValueId mean = reduced(net, "ReduceMean", square, axes);
    net.finish(is_shared ? std::vector{mean, square} : std::vector{mean});
    return net;
  };
  EXPECT_EQ(groups_of(mean_of_squares(false, {3}).graph), "tenon:ElementwiseReduce square ReduceMean");
  gives_the_same(mean_of_squares(false, {3}), "Cast tenon:ElementwiseReduce");
  EXPECT_EQ(groups_of(mean_of_squares(true, {3}).graph), "");
  EXPECT_EQ(groups_of(mean_of_squares(false, {}).graph), "");
}

TEST(ElementwiseReductions, TakeProgramsAsTheyAre) {
  Net net;
  const ir::Attributes silu{{"program", std::vector<std::string>{"silu %0", "mul %1 %0"}}};
  const ir::ValueId y = net.graph.apply("tenon:Elementwise", {net.input(5, 16)}, silu, {"map"}, "map");
  net.finish({reduced(net, "ReduceMax", y, {-1})});
  EXPECT_EQ(groups_of(net.graph), "tenon:ElementwiseReduce map ReduceMax");
  gives_the_same(net, "tenon:ElementwiseReduce");
}

TEST(ElementwiseReductions, HaveNumbersInTheirProgram) {
  Net net;
  const ir::ValueId half = net.graph.add_constant("", Tensor::of<float>(DType::f32, {}, std::array{0.5f}));
  const ir::ValueId y = net.graph.apply("Mul", {widened(net), half}, {}, {"scale"}, "scaled");
  net.finish({reduced(net, "ReduceSum", y, {1, 2})});
  EXPECT_EQ(groups_of(net.graph), "tenon:ElementwiseReduce scale ReduceSum");
  EXPECT_EQ(std::get<std::vector<std::string>>(fused_of(net).nodes[1].attributes.at("program")),
            std::vector<std::string>{"mul %0 0.5"});
  gives_the_same(net, "Cast tenon:ElementwiseReduce");
}

ir::ValueId pool(ir::Graph& graph, ir::ValueId x, int64_t window, const std::string& name, ir::Attributes more = {}) {
  const int64_t pad = window / 2;
  more.insert({{"layout", std::string("NHWC")},
               {"kernel_shape", std::vector<int64_t>{window, window}},
               {"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
  return graph.apply("MaxPool", {x}, more, {name}, name);
}

ir::ValueId joined(ir::Graph& graph, const std::vector<ir::ValueId>& parts) {
  return graph.apply("Concat", parts, {{"axis", int64_t{3}}}, {"joined"});
}

TEST(PoolPyramids, AreFoundBehindOneAnotherAndSideBySide) {
  Net behind;
  ir::Graph& first = behind.graph;
  ir::ValueId x = behind.input(9, 8);
  const ir::ValueId a = pool(first, x, 5, "a"), b = pool(first, a, 5, "b"), c = pool(first, b, 3, "c");
  behind.finish({joined(first, {x, a, b, c})});
  EXPECT_EQ(groups_of(first), "tenon:MaxPools a b c");
  EXPECT_EQ(fused_of(behind).nodes[0].integers("windows"), (std::vector<int64_t>{5, 9, 11}));
  gives_the_same(behind, "tenon:MaxPools Concat");

  Net beside;
  ir::Graph& second = beside.graph;
  x = beside.input(9, 8);
  const ir::ValueId wide = pool(second, x, 13, "wide"), narrow = pool(second, x, 5, "narrow");
  beside.finish({joined(second, {wide, x, narrow})});
  EXPECT_EQ(groups_of(second), "tenon:MaxPools narrow wide");
  gives_the_same(beside, "tenon:MaxPools Concat");
}

TEST(PoolPyramids, AreOfWindowsThatDifferAndKeepTheSize) {
  using List = std::vector<int64_t>;
  const ir::Attributes others[] = {{{"kernel_shape", List{5, 3}}}, {{"kernel_shape", List{4, 4}}},
                                   {{"strides", List{2, 2}}},      {{"dilations", List{2, 2}}},
                                   {{"pads", List{2, 2, 1, 1}}},   {{"auto_pad", std::string("VALID")}}};
  for (const ir::Attributes& other : others) {
    Net net;
    const ir::ValueId x = net.input(19, 8);
    const ir::ValueId a = pool(net.graph, x, 5, "a");
    net.finish({pool(net.graph, a, 5, "b", other)});
    EXPECT_EQ(groups_of(net.graph), "") << other.begin()->first;
  }
  Net alike;
  const ir::ValueId x = alike.input(9, 8);
  const ir::ValueId a = pool(alike.graph, x, 5, "a"), b = pool(alike.graph, x, 5, "b");
  alike.finish({joined(alike.graph, {a, b})});
  EXPECT_EQ(groups_of(alike.graph), "");
}

}  // namespace
}  // namespace tenon::tests
