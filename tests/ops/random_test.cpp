// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/op.h"

namespace tenon {
namespace {

Tensor draw(const std::string& op, ir::Attributes attributes, std::vector<Tensor> inputs = {}) {
  ir::Node node;
  node.op = op;
  node.attributes = std::move(attributes);
  node.inputs.resize(inputs.size());
  node.outputs = {0};
  return ops::evaluate(node, inputs)[0];
}

struct Statistics {
  double mean = 0, deviation = 0;
};
Statistics statistics(const Tensor& tensor) {
  Statistics result;
  for (float value : tensor.values<float>()) result.mean += value;
  result.mean /= static_cast<double>(tensor.elements());
  for (float value : tensor.values<float>()) result.deviation += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(result.deviation / static_cast<double>(tensor.elements()));
  return result;
}

const std::vector<int64_t> many{100, 1000};

TEST(Random, UniformFillsItsRangeEvenly) {
  const Tensor x = draw("RandomUniform", {{"shape", many}, {"low", 2.f}, {"high", 6.f}, {"seed", 3.f}});
  const auto [low, high] = std::minmax_element(x.data<float>(), x.data<float>() + x.elements());
  EXPECT_GE(*low, 2);
  EXPECT_LE(*high, 6);
  EXPECT_NEAR(statistics(x).mean, 4, 0.02);
  EXPECT_NEAR(statistics(x).deviation, 4 / std::sqrt(12.0), 0.02);
}

TEST(Random, NormalHasItsMeanAndDeviation) {
  const Tensor x =
      draw("RandomNormalLike", {{"mean", 1.f}, {"scale", 3.f}, {"seed", 5.f}}, {Tensor(DType::f32, {100, 1000})});
  EXPECT_NEAR(statistics(x).mean, 1, 0.05);
  EXPECT_NEAR(statistics(x).deviation, 3, 0.05);
}

TEST(Random, TheSeedDecides) {
  const auto of = [](float seed) { return draw("RandomUniform", {{"shape", many}, {"seed", seed}}); };
  EXPECT_EQ(std::memcmp(of(1).data(), of(1).data(), of(1).bytes()), 0);
  EXPECT_NE(std::memcmp(of(1).data(), of(2).data(), of(1).bytes()), 0);
}

TEST(Random, BernoulliFollowsItsProbabilities) {
  Tensor p(DType::f32, {2, 50000});
  std::fill_n(p.data<float>(), 50000, 0.2f);
  std::fill_n(p.data<float>() + 50000, 50000, 0.9f);
  const Tensor x = draw("Bernoulli", {{"seed", 7.f}}, {p});
  EXPECT_NEAR(std::count(x.data<float>(), x.data<float>() + 50000, 1.f), 10000, 500);
  EXPECT_NEAR(std::count(x.data<float>() + 50000, x.data<float>() + 100000, 1.f), 45000, 500);
}

TEST(Random, MultinomialFollowsItsLogProbabilities) {
  Tensor logits(DType::f32, {1, 3});
  logits.data<float>()[0] = std::log(0.1f), logits.data<float>()[1] = std::log(0.7f),
  logits.data<float>()[2] = std::log(0.2f);
  const Tensor x = draw("Multinomial", {{"sample_size", int64_t{100000}}, {"seed", 7.f}}, {logits});
  const auto count = [&](int32_t k) { return std::count(x.data<int32_t>(), x.data<int32_t>() + 100000, k); };
  EXPECT_NEAR(count(0), 10000, 700);
  EXPECT_NEAR(count(1), 70000, 700);
  EXPECT_NEAR(count(2), 20000, 700);
}

}  // namespace
}  // namespace tenon
