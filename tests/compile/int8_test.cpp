// SPDX-License-Identifier: Apache-2.0
#include "compile/int8.h"

#include <gtest/gtest.h>

#include "backends/cpu/byte_grid.h"
#include "engine/engine.h"
#include "support/compare.h"
#include "support/net.h"

namespace tenon::compile {
namespace {

using namespace test;

/// Of nodes on bytes and others, how many there are in an engine with all in INT8 that may be, whose results are near
/// those in floating point.
std::map<std::string, int> ops_in_int8(const std::string& net, const Dims& dims) {
  const Folder folder;
  BuildOptions options = quick_build();
  options.precision = Precision::int8;
  options.calibrator = std::make_shared<test::Samples>(random_samples(8, dims));
  options.calibration.method = CalibrationMethod::min_max;
  options.calibration.target_error = 1e9;
  Engine engine = build_net(folder, net, options), exact = build_net(folder, net);
  const std::map<std::string, Tensor> x{{"x", random_tensor(dims, 3)}};
  EXPECT_EQ(difference(engine.session().run(x)[0], exact.session().run(x)[0], {.element = 0.2, .mean = 0.03}), "");
  ir::Graph graph = plan_of(engine).graph;
  std::map<std::string, int> found;
  for (const ir::Node& node : graph.nodes)
    if (node.alive) ++found[node.op.str()];
  return found;
}

TEST(Int8, TransposedConvolutionsAreConvolutionsOfRows) {
  const std::string twice = integers("strides", {2, 2}) + integers("pads", {1, 1, 1, 1});
  auto found =
      ops_in_int8(model(input("x", {1, 8, 6, 6}) + random_weights("w1", {8, 8, 1, 1}, 1) +
                        random_weights("w2", {8, 8, 4, 4}, 2) + random_weights("w3", {8, 8, 1, 1}, 3) +
                        node("first", "Conv", {"x", "w1"}, {"a"}) + node("act", "Relu", {"a"}, {"b"}) +
                        node("up", "ConvTranspose", {"b", "w2"}, {"c"}, twice) + node("more", "Relu", {"c"}, {"d"}) +
                        node("last", "Conv", {"d", "w3"}, {"e"}) + node("end", "Relu", {"e"}, {"y"}) + output("y")),
                  {1, 8, 6, 6});
  EXPECT_EQ(found["ConvTranspose"], 0);
  EXPECT_EQ(found["tenon:Int8Conv"], 4);
  EXPECT_EQ(found["Concat"], 1);
}

TEST(Int8, SumsBehindProductsStayNumbers) {
  auto found = ops_in_int8(
      model(input("x", {4, 16}) + random_weights("w1", {16, 16}, 1) + random_weights("w2", {16, 16}, 2) +
            node("first", "MatMul", {"x", "w1"}, {"a"}) + node("act", "Relu", {"a"}, {"b"}) +
            node("second", "MatMul", {"b", "w2"}, {"c"}) + node("sum", "Add", {"c", "x"}, {"y"}) + output("y")),
      {4, 16});
  EXPECT_EQ(found["MatMul"], 0);
  EXPECT_EQ(found["tenon:Int8Conv"], 2);
  EXPECT_EQ(found["QuantizeLinear"], 1);  // x, which is added as it is
  EXPECT_EQ(found["DequantizeLinear"], 0);
}

/// Whether the weights of a recurrent layer's inputs and states are bytes times a scale for each row, in an engine in
/// INT8 whose results are near those in floating point.
std::pair<bool, bool> recurrent_in_int8(const std::map<std::string, std::string>& keep) {
  const Folder folder;
  const Dims dims{6, 1, 24};
  const std::string net =
      model(input("x", {6, 1, 24}) + random_weights("w", {1, 128, 24}, 1) + random_weights("r", {1, 128, 32}, 2) +
            node("layer", "LSTM", {"x", "w", "r"}, {"y"}, integer("hidden_size", 32)) + output("y"));
  BuildOptions options = quick_build();
  options.precision = Precision::int8;
  options.calibrator = std::make_shared<test::Samples>(random_samples(8, dims));
  options.calibration.keep = keep;
  Engine engine = build_net(folder, net, options), exact = build_net(folder, net);
  const std::map<std::string, Tensor> x{{"x", random_tensor(dims, 3)}};
  EXPECT_EQ(difference(engine.session().run(x)[0], exact.session().run(x)[0], {.element = 0.02, .mean = 0.005}), "");
  ir::Graph graph = plan_of(engine).graph;
  for (const ir::Node& node : graph.nodes)
    if (node.alive && node.op == "LSTM") {
      const Tensor &in = *graph.constant(node.inputs[1]), &back = *graph.constant(node.inputs[2]);
      return {cpu::byte_grid(in.data<float>(), 128, 24).has_value(),
              cpu::byte_grid(back.data<float>(), 128, 32).has_value()};
    }
  return {};
}

TEST(Int8, WeightsOfRecurrentLayersAreOf8Bits) {
  using Both = std::pair<bool, bool>;
  EXPECT_EQ(recurrent_in_int8({}), Both(true, true));
  EXPECT_EQ(recurrent_in_int8({{"layer", "fp32"}}), Both(false, false));
}

}  // namespace
}  // namespace tenon::compile
