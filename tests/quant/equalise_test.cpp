// SPDX-License-Identifier: Apache-2.0
#include "quant/equalise.h"

#include <gtest/gtest.h>

#include "onnx/import.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "compile/calibrate.h"
#include "quant/materialise.h"
#include "support/net.h"

namespace tenon::quant {
namespace {

constexpr int channels = 6;

/// Weights whose output channels differ by powers of ten, and ones that take that back.
std::string spread(const std::string& name, const std::vector<int64_t>& dims, unsigned seed, bool rows, float base) {
  std::mt19937 random(seed);
  const int64_t inner = dims[1] * dims[2] * dims[3];
  std::vector<float> values(static_cast<size_t>(dims[0] * inner));
  for (size_t at = 0; at < values.size(); ++at) {
    const auto channel = static_cast<int64_t>(at) / (rows ? inner : dims[2] * dims[3]) % (rows ? dims[0] : dims[1]);
    const float size = std::pow(base, static_cast<float>(channel % 3));
    values[at] = size * (static_cast<float>(random() >> 8) / static_cast<float>(1 << 24) - 0.5f);
  }
  return test::tensor(name, test::f32, dims, test::raw(values));
}

/// Values of unlike channels that go to a convolution, a sum, a pool and a concatenation, in SiLU.
std::string unlike_net() {
  const auto silu = [](const std::string& name) {
    return test::node(name + "_s", "Sigmoid", {name}, {name + "_t"}) +
           test::node(name + "_m", "Mul", {name, name + "_t"}, {name + "_a"});
  };
  const std::string pads = test::integers("pads", {1, 1, 1, 1});
  return test::model(test::input("x", {1, 3, 8, 8}) + spread("w1", {channels, 3, 3, 3}, 1, true, 12) +
                     spread("w2", {channels, channels, 1, 1}, 2, false, 1 / 12.f) +
                     spread("w3", {8, 2 * channels, 3, 3}, 3, false, 0.2f) + spread("w4", {4, 8, 1, 1}, 4, false, 1) +
                     test::node("stem", "Conv", {"x", "w1"}, {"c1"}, pads) + silu("c1") +
                     test::node("pool", "MaxPool", {"c1_a"}, {"p"}, pads + test::integers("kernel_shape", {3, 3})) +
                     test::node("point", "Conv", {"c1_a", "w2"}, {"c2"}) +
                     test::node("sum", "Add", {"c2", "c1_a"}, {"d"}) +
                     test::node("join", "Concat", {"d", "p"}, {"e"}, test::integer("axis", 1)) +
                     test::node("wide", "Conv", {"e", "w3"}, {"c3"}, pads) + silu("c3") +
                     test::node("head", "Conv", {"c3_a", "w4"}, {"c4"}) + silu("c4") + test::output("c4_a"));
}

struct EqualiseCase {
  ir::Graph graph;
  compile::Setting setting;
  EqualiseCase() {
    const test::Folder folder;
    folder.write("m.onnx", unlike_net());
    graph = onnx::import_file(folder / "m.onnx");
    passes::optimise(graph);
    setting.options.target_error = 1e9;
    setting.options.keep = {{"head", "int8"}};
  }
  Recipe recipe(bool by_channel) {
    setting.by_channel = by_channel;
    test::Samples samples = test::random_samples(24, {1, 3, 8, 8});
    return compile::calibrate(graph, samples, setting);
  }
  /// Squared error over the power of the exact outputs, on inputs that calibration has not seen.
  double error(const ir::Graph& rounded) const {
    double wrong = 0, all = 0;
    for (unsigned seed = 100; seed < 112; ++seed) {
      const Tensor x = test::random_tensor({1, 3, 8, 8}, seed);
      const Tensor a = ops::interpret(plan::concretise(graph, {}), {x})[0];
      const Tensor b = ops::interpret(plan::concretise(rounded, {}), {x})[0];
      for (int64_t at = 0; at < a.elements(); ++at) {
        wrong += std::pow(a.data<float>()[at] - b.data<float>()[at], 2);
        all += std::pow(a.data<float>()[at], 2);
      }
    }
    return wrong / all;
  }
};

TEST(equalise, keeps_channels_of_small_range_beside_large_ones) {
  EqualiseCase one;
  const Recipe plain = one.recipe(false), own = one.recipe(true);
  EXPECT_TRUE(plain.factors.empty());
  ASSERT_FALSE(own.factors.empty());
  ir::Graph with_plain = one.graph, with_own = one.graph;
  materialise(with_plain, plain);
  materialise(with_own, own);
  const double before = one.error(with_plain), after = one.error(with_own);
  EXPECT_LT(after, before / 4) << before;
  EXPECT_LT(after, 1e-3);
}

TEST(equalise, measures_layers_alone_with_their_factors) {
  EqualiseCase one;
  const Recipe recipe = one.recipe(true);
  int measured = 0;
  for (const plan::LayerEvidence& layer : recipe.evidence.layers) {
    EXPECT_LT(layer.error, 0.01) << layer.node;
    measured += layer.error > 0;
  }
  EXPECT_GE(measured, 3);
}

TEST(equalise, gives_channels_one_factor_wherever_they_are_carried) {
  EqualiseCase one;
  const Recipe recipe = one.recipe(true);
  const auto of_origin = [&](const std::string& origin) -> const std::vector<float>& {
    static const std::vector<float> none;
    for (const ir::Node& node : one.graph.nodes)
      if (std::count(node.origins.begin(), node.origins.end(), origin))
        if (const auto found = recipe.factors.find(one.graph.value(node.outputs[0]).name);
            found != recipe.factors.end())
          return found->second;
    ADD_FAILURE() << origin << " has no factors";
    return none;
  };
  const std::vector<float>&stem = of_origin("stem"), &pool = of_origin("pool"), &sum = of_origin("sum"),
        &whole = of_origin("join");
  EXPECT_EQ(stem, pool);
  std::vector<float> both = sum;
  both.insert(both.end(), pool.begin(), pool.end());
  EXPECT_EQ(whole, both);
  EXPECT_GT(stem[2], 20 * stem[0]);
}

TEST(equalise, computes_the_same_in_integer_kernels) {
  EqualiseCase one;
  const Recipe recipe = one.recipe(true);
  ir::Graph rounded = one.graph, lowered;
  materialise(rounded, recipe);
  lowered = rounded;
  passes::lower(lowered);
  int by_channel = 0, residuals = 0;
  for (const ir::Node& node : lowered.nodes) {
    if (!node.alive || node.op != "tenon:Int8Conv") continue;
    by_channel += node.inputs.size() > 7 && node.inputs[7] != ir::no_value &&
                  lowered.constant(node.inputs[7])->elements() > 1;
    residuals += node.inputs.size() > 9 && lowered.constant(node.inputs[9])->elements() > 1;
  }
  EXPECT_GE(by_channel, 2);
  EXPECT_EQ(residuals, 1);
  for (unsigned seed = 100; seed < 104; ++seed) {
    const Tensor x = test::random_tensor({1, 3, 8, 8}, seed);
    const Tensor a = ops::interpret(plan::concretise(rounded, {}), {x})[0];
    const Tensor b = ops::interpret(plan::concretise(lowered, {}), {x})[0];
    double wrong = 0, all = 0;  // a byte may lie one step beside where a half is rounded
    for (int64_t at = 0; at < a.elements(); ++at) {
      wrong += std::pow(a.data<float>()[at] - b.data<float>()[at], 2);
      all += std::pow(a.data<float>()[at], 2);
    }
    EXPECT_LT(wrong, 1e-4 * all);
  }
}

}  // namespace
}  // namespace tenon::quant
