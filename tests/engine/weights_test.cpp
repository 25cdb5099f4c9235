// SPDX-License-Identifier: Apache-2.0
// Weights of few bits stay as they are in an engine's file and in memory.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "engine/engine.h"
#include "ops/half.h"
#include "support/net.h"

namespace tenon {
namespace {

using namespace test;

constexpr int64_t inner = 160, outer = 96, block = 32, blocks = inner / block;
constexpr auto f16 = static_cast<Element>(10);
const std::string microsoft = field(8, field(1, "com.microsoft") + field(2, 1));

std::vector<uint16_t> half_numbers(size_t count) {
  std::mt19937 random(7);
  std::vector<uint16_t> bits(count);
  for (uint16_t& one : bits) one = ops::f16_bits(static_cast<float>(random() % 2001) / 1000 - 1);
  return bits;
}

/// x (1x160, f32) by weights in f16 -> y.
std::string half_net() {
  const std::string weights = tensor("w", f16, {inner, outer}, raw(half_numbers(inner * outer)));
  return model(input("x", {1, inner}) + weights + node("in", "Cast", {"x"}, {"h"}, integer("to", f16)) +
               node("p", "MatMul", {"h", "w"}, {"z"}) + node("out", "Cast", {"z"}, {"y"}, integer("to", f32)) +
               output("y"));
}

struct Blocks {
  std::vector<uint8_t> integers, zeros;
  std::vector<float> scales;
  int bits;
  explicit Blocks(int bits)
      : integers(static_cast<size_t>(outer * inner * bits / 8)),
        zeros(static_cast<size_t>(outer * ((blocks * bits + 7) / 8))),
        scales(static_cast<size_t>(outer * blocks)),
        bits(bits) {
    std::mt19937 random(5);
    for (auto* list : {&integers, &zeros})
      for (uint8_t& one : *list) one = static_cast<uint8_t>(random());
    for (float& one : scales) one = static_cast<float>(random() % 1000 + 1) / 16384;
  }
  int number(const std::vector<uint8_t>& from, int64_t row, int64_t at) const {
    return bits == 8 ? from[static_cast<size_t>(row + at)] : from[static_cast<size_t>(row + at / 2)] >> at % 2 * 4 & 15;
  }
  float weight(int64_t n, int64_t k) const {
    const int64_t row = (blocks * bits + 7) / 8;
    return static_cast<float>(number(integers, n * inner * bits / 8, k) - number(zeros, n * row, k / block)) *
           scales[static_cast<size_t>(n * blocks + k / block)];
  }
};

/// x by com.microsoft's MatMulNBits, with zero points and a bias of 0.5.
std::string block_net(const Blocks& w) {
  const std::vector<float> bias(outer, 0.5f);
  const int64_t bytes = block * w.bits / 8;
  return model(input("x", {3, inner}) + tensor("w", u8, {outer, blocks, bytes}, raw(w.integers)) +
                   tensor("s", f32, {outer * blocks}, raw(w.scales)) +
                   tensor("z", u8, {static_cast<int64_t>(w.zeros.size())}, raw(w.zeros)) +
                   tensor("b", f32, {outer}, raw(bias)) +
                   node("p", "MatMulNBits", {"x", "w", "s", "z", "", "b"}, {"y"},
                        integer("K", inner) + integer("N", outer) + integer("bits", w.bits) +
                            integer("block_size", block) + field(7, "com.microsoft")) +
                   output("y"),
               microsoft);
}

int64_t file_bytes(const Folder& folder, const Engine& engine) {
  engine.save(folder / "m.tenon");
  return static_cast<int64_t>(std::filesystem::file_size(folder / "m.tenon"));
}

TEST(Weights, OfF16StayInF16) {
  const Folder folder;
  const Engine engine = build_net(folder, half_net());
  EXPECT_LT(file_bytes(folder, engine), inner * outer * 2 + 16384);
  const Tensor x = random_tensor({1, inner}, 3);
  Session session = Engine::load(folder / "m.tenon").session(2);
  const Tensor y = session.run({{"x", x}})[0];
  EXPECT_LT(session.memory().weights_bytes, inner * outer * 3);
  const std::vector<uint16_t> w = half_numbers(inner * outer);
  for (int64_t n = 0; n < outer; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k)
      sum += static_cast<double>(x.data<float>()[k]) * ops::f16_value(w[static_cast<size_t>(k * outer + n)]);
    EXPECT_NEAR(y.data<float>()[n], sum, 1e-4);
  }
}

TEST(Weights, ThatSeveralLayersShareCountOnce) {
  const Folder folder;
  const Engine engine =
      build_net(folder, model(input("x", {64, 256}) + input("z", {32, 256}) + random_weights("w", {256, 256}, 1) +
                              random_weights("b", {256}, 2) + node("one", "MatMul", {"x", "w"}, {"a"}) +
                              node("other", "MatMul", {"z", "w"}, {"c"}) + node("more", "Add", {"c", "b"}, {"d"}) +
                              output("a") + output("d")));
  Session session = engine.session(1);
  EXPECT_GE(session.memory().weights_bytes, 256 * 256 * 4);
  EXPECT_LT(session.memory().weights_bytes, 256 * 256 * 6);
}

class BlockWeights : public ::testing::TestWithParam<int> {};

TEST_P(BlockWeights, AreMultipliedAsTheyAre) {
  const Blocks w(GetParam());
  const Folder folder;
  const Engine engine = build_net(folder, block_net(w));
  EXPECT_LT(file_bytes(folder, engine), static_cast<int64_t>(w.integers.size() + w.scales.size() * 5) + 16384);
  Session session = Engine::load(folder / "m.tenon").session(2);
  const Tensor x = random_tensor({3, inner}, 3), y = session.run({{"x", x}})[0];
  EXPECT_LT(session.memory().weights_bytes, static_cast<int64_t>(w.integers.size() + w.scales.size() * 5) + 4096);
  for (int64_t m = 0; m < 3; ++m)
    for (int64_t n = 0; n < outer; ++n) {
      double sum = 0.5;
      for (int64_t k = 0; k < inner; ++k) sum += static_cast<double>(x.data<float>()[m * inner + k]) * w.weight(n, k);
      EXPECT_NEAR(y.data<float>()[m * outer + n], sum, 1e-4);
    }
}
INSTANTIATE_TEST_SUITE_P(Bits, BlockWeights, ::testing::Values(4, 8));

/// Of the results of a product by so many random weights in blocks, beside those in f32: the relative error.
double error_of_rounding(Weights weights, double bits) {
  constexpr int64_t k = 160, n = 128;
  const Folder folder;
  const std::string net =
      model(input("x", {1, k}) + random_weights("w", {k, n}, 1) + node("p", "MatMul", {"x", "w"}, {"y"}) + output("y"));
  BuildOptions options = quick_build();
  options.weights = weights;
  const Tensor x = random_tensor({1, k}, 2);
  const Tensor exact = build_net(folder, net).session(1).run({{"x", x}})[0];
  const Engine engine = build_net(folder, net, options);
  EXPECT_LT(static_cast<double>(file_bytes(folder, engine)), k * n * bits / 8 + 8192);
  const Tensor y = Engine::load(folder / "m.tenon").session(2).run({{"x", x}})[0];
  double error = 0, power = 0;
  for (int64_t at = 0; at < n; ++at) {
    error += std::pow(y.data<float>()[at] - exact.data<float>()[at], 2);
    power += std::pow(exact.data<float>()[at], 2);
  }
  return std::sqrt(error / power);
}

TEST(Weights, AreRoundedToBlocks) {
  const double of_int8 = error_of_rounding(Weights::int8, 8.5), of_int4 = error_of_rounding(Weights::int4, 4.5);
  EXPECT_GT(of_int8, 1e-4);
  EXPECT_LT(of_int8, 0.01);
  EXPECT_GT(of_int4, 0.01);
  EXPECT_LT(of_int4, 0.12);
}

/// Rows of correlated numbers: few sources, mixed, and a little noise.
class Mixture {
 public:
  static constexpr int64_t size = 160, sources = 12;
  Mixture() : mix_(random_tensor({size, sources}, 11)) {}
  Tensor row(unsigned seed) const {
    const Tensor from = random_tensor({sources}, 100 + seed), noise = random_tensor({size}, 9000 + seed);
    Tensor x(DType::f32, {1, size});
    for (int64_t i = 0; i < size; ++i) {
      float sum = 0.05f * noise.data<float>()[i];
      for (int64_t k = 0; k < sources; ++k) sum += mix_.data<float>()[i * sources + k] * from.data<float>()[k];
      x.data<float>()[i] = sum;
    }
    return x;
  }

 private:
  Tensor mix_;
};

class MixtureData : public Calibrator {
 public:
  bool next_batch(CalibrationBatch& batch) override {
    if (given_ == 256) return false;
    batch.inputs = {{"x", mixture_.row(given_++)}};
    return true;
  }

 private:
  Mixture mixture_;
  unsigned given_ = 0;
};

std::vector<double> shares(const Tensor& logits) {
  std::vector<double> list(static_cast<size_t>(logits.elements()));
  double sum = 0;
  for (size_t at = 0; at < list.size(); ++at) sum += list[at] = std::exp(3 * logits.data<float>()[at]);
  for (double& one : list) one /= sum;
  return list;
}

TEST(Weights, OfFourBitsMakeUpForEachOtherOnData) {
  const Folder folder;
  const std::string net = model(input("x", {1, Mixture::size}) + random_weights("w", {Mixture::size, 128}, 1) +
                                random_weights("v", {128, 128}, 2) + node("p", "MatMul", {"x", "w"}, {"h"}) +
                                node("r", "Relu", {"h"}, {"g"}) + node("q", "MatMul", {"g", "v"}, {"y"}) + output("y"));
  BuildOptions options = quick_build();
  Session exact = build_net(folder, net).session(1);
  options.weights = Weights::int4;
  Session nearest = build_net(folder, net, options).session(1);
  options.calibrator = std::make_shared<MixtureData>();
  Session compensated = build_net(folder, net, options).session(1);
  const Mixture mixture;
  double error[2] = {}, divergence[2] = {};
  for (unsigned sample = 0; sample < 50; ++sample) {
    const Tensor x = mixture.row(1000 + sample), expected = exact.run({{"x", x}})[0];
    const std::vector<double> wanted = shares(expected);
    for (int which = 0; which < 2; ++which) {
      const Tensor y = (which ? compensated : nearest).run({{"x", x}})[0];
      const std::vector<double> given = shares(y);
      for (int64_t at = 0; at < y.elements(); ++at) {
        error[which] += std::pow(y.data<float>()[at] - expected.data<float>()[at], 2);
        divergence[which] += wanted[at] * std::log(wanted[at] / given[at]);
      }
    }
  }
  RecordProperty("error", std::to_string(error[1] / error[0]));
  EXPECT_LT(error[1], 0.4 * error[0]);
  EXPECT_LT(divergence[1], 0.4 * divergence[0]) << divergence[0] / 50;
}

TEST(Weights, AreNotRoundedBesideInt8) {
  const Folder folder;
  BuildOptions options = quick_build();
  options.weights = Weights::int4;
  EXPECT_NE(error_of([&] { build_net(folder, small_net(), options); }).find("so many constant weights"),
            std::string::npos);
  options.weight_block = 24;
  EXPECT_NE(error_of([&] { build_net(folder, small_net(), options); }).find("blocks of 24"), std::string::npos);
  options.precision = Precision::int8;
  EXPECT_NE(error_of([&] { build_net(folder, small_net(), options); }).find("weights alone"), std::string::npos);
}

TEST(Weights, OfOtherOrdersNameTheirBlocks) {
  const std::string order = tensor("g", i32, {inner}, std::string(inner * 4, '\1'));
  const Blocks w(4);
  const std::string net = model(input("x", {3, inner}) + tensor("w", u8, {outer, blocks, block / 2}, raw(w.integers)) +
                                    tensor("s", f32, {outer * blocks}, raw(w.scales)) + order +
                                    node("p", "MatMulNBits", {"x", "w", "s", "", "g"}, {"y"},
                                         integer("K", inner) + integer("N", outer) + integer("bits", 4) +
                                             integer("block_size", block) + field(7, "com.microsoft")) +
                                    output("y"),
                                microsoft);
  const Folder folder;
  const std::string error = error_of([&] { build_net(folder, net); });
  EXPECT_NE(error.find("its order names block 16843009"), std::string::npos) << error;
}

}  // namespace
}  // namespace tenon
