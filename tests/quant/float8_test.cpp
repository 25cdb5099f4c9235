// SPDX-License-Identifier: Apache-2.0
#include "quant/float8.h"

#include <gtest/gtest.h>

#include "onnx/import.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "compile/calibrate.h"
#include "support/net.h"

namespace tenon::quant {
namespace {

/// A convolution, a depthwise one, a residual sum, a pool, a concatenation and a product, with channels in sixteens but
/// for one layer.
std::string net() {
  const std::string pads = test::integers("pads", {1, 1, 1, 1});
  const auto relu = [](const std::string& name) { return test::node(name + "_r", "Relu", {name}, {name + "_a"}); };
  return test::model(
      test::input("x", {1, 16, 8, 8}) + test::random_weights("w1", {32, 16, 3, 3}, 1) +
      test::random_weights("w2", {32, 1, 3, 3}, 2) + test::random_weights("w3", {32, 32, 1, 1}, 3) +
      test::random_weights("w4", {16, 64, 3, 3}, 4) + test::random_weights("w5", {10, 16, 1, 1}, 5) +
      test::random_weights("w6", {16, 10, 1, 1}, 6) + test::random_weights("w7", {16, 16}, 7) +
      test::node("first", "Conv", {"x", "w1"}, {"a"}, pads) + relu("a") +
      test::node("depthwise", "Conv", {"a_a", "w2"}, {"b"}, pads + test::integer("group", 32)) + relu("b") +
      test::node("point", "Conv", {"b_a", "w3"}, {"c"}) + test::node("sum", "Add", {"c", "a_a"}, {"d"}) +
      test::node("pool", "MaxPool", {"d"}, {"p"}, pads + test::integers("kernel_shape", {3, 3})) +
      test::node("join", "Concat", {"d", "p"}, {"e"}, test::integer("axis", 1)) +
      test::node("wide", "Conv", {"e", "w4"}, {"f"}, pads) + relu("f") +
      test::node("odd", "Conv", {"f_a", "w5"}, {"g"}) + relu("g") + test::node("even", "Conv", {"g_a", "w6"}, {"h"}) +
      relu("h") + test::node("average", "GlobalAveragePool", {"h_a"}, {"i"}) +
      test::node("flat", "Flatten", {"i"}, {"j"}) + test::node("head", "MatMul", {"j", "w7"}, {"y"}) +
      test::output("y"));
}

struct Case {
  ir::Graph graph;
  Recipe recipe;
  Case() {
    const test::Folder folder;
    folder.write("m.onnx", net());
    graph = onnx::import_file(folder / "m.onnx");
    passes::optimise(graph);
    compile::Setting setting;
    setting.by_channel = false;
    setting.options.method = CalibrationMethod::min_max;
    setting.options.target_error = 1e9;
    test::Samples samples = test::random_samples(16, {1, 16, 8, 8});
    recipe = float8_part(graph, compile::calibrate(graph, samples, setting));
  }
};

/// Squared error over the power of a's results, on inputs that calibration has not seen.
double error(const ir::Graph& a, const ir::Graph& b) {
  double wrong = 0, all = 0;
  for (unsigned seed = 100; seed < 108; ++seed) {
    const Tensor x = test::random_tensor({1, 16, 8, 8}, seed);
    const Tensor p = ops::interpret(plan::concretise(a, {}), {x})[0];
    const Tensor q = ops::interpret(plan::concretise(b, {}), {x})[0];
    for (int64_t at = 0; at < p.elements(); ++at) {
      wrong += std::pow(p.data<float>()[at] - q.data<float>()[at], 2);
      all += std::pow(p.data<float>()[at], 2);
    }
  }
  return wrong / all;
}

TEST(float8, takes_convolutions_and_products_whose_channels_fill_sixteens) {
  const Case one;
  std::set<std::string> taken;
  for (const ir::Node& node : one.graph.nodes)
    if (node.alive && one.recipe.anchors.count(one.graph.value(node.outputs[0]).name))
      taken.insert(node.origins.begin(), node.origins.end());
  for (const char* name : {"first", "point", "wide", "head"}) EXPECT_TRUE(taken.count(name)) << name;
  for (const char* name : {"depthwise", "odd", "even"}) EXPECT_FALSE(taken.count(name)) << name;
}

TEST(float8, computes_the_same_in_joined_nodes) {
  const Case one;
  ir::Graph rounded = one.graph;
  materialise_float8(rounded, one.recipe);
  EXPECT_LT(error(one.graph, rounded), 2e-2);
  EXPECT_GT(error(one.graph, rounded), 1e-5);
  ir::Graph joined = rounded;
  passes::lower_floats(joined);
  passes::lower(joined);
  int convolutions = 0, residuals = 0, pools = 0, joins = 0;
  for (const ir::Node& node : joined.nodes) {
    if (!node.alive) continue;
    convolutions += node.op == "tenon:Float8Conv";
    residuals += node.op == "tenon:Float8Conv" && node.has("residual");
    pools += node.op == "MaxPool" && joined.value(node.outputs[0]).dtype == DType::f8e4m3fn;
    joins += node.op == "Concat" && joined.value(node.outputs[0]).dtype == DType::f8e4m3fn;
  }
  EXPECT_EQ(convolutions, 4);
  EXPECT_EQ(residuals, 1);
  EXPECT_EQ(pools, 1);
  EXPECT_EQ(joins, 1);
  EXPECT_LT(error(rounded, joined), 1e-3);
}

}  // namespace
}  // namespace tenon::quant
