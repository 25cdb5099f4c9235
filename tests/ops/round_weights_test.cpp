// SPDX-License-Identifier: Apache-2.0
// Weights in floats of 16 and 8 bits: each beside what it was, sums of windows nearer than by rounding to nearest.
#include "ops/round_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "ops/float8.h"
#include "ops/half.h"

namespace tenon {
namespace {

float nearest(float value, DType type) {
  if (type == DType::f8e4m3fn) return ops::f8_value(ops::f8_bits(value, type, false), type);
  return type == DType::bf16 ? ops::bf16_value(ops::bf16_bits(value)) : ops::f16_value(ops::f16_bits(value));
}

Tensor rounded(const Tensor& weights, DType type) {
  Tensor result(DType::f32, weights.dims());
  ops::round_weights(weights, type, result);
  return result;
}

Tensor noise(const Dims& dims, float scale) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, scale);
  Tensor tensor(DType::f32, dims);
  for (int64_t at = 0; at < tensor.elements(); ++at) tensor.data<float>()[at] = normal(random);
  return tensor;
}

class RoundWeights : public ::testing::TestWithParam<DType> {};

TEST_P(RoundWeights, EachIsANumberBesideIt) {
  // Between neighbours, as a part of the lower power of two, and where that ends.
  const auto [step, least] = GetParam() == DType::f8e4m3fn ? std::pair{0x1p-3, 0x1p-6}
                             : GetParam() == DType::bf16   ? std::pair{0x1p-7, 0x1p-126}
                                                           : std::pair{0x1p-10, 0x1p-14};
  const Tensor weights = noise({16, 8, 3, 3}, 0.5f), result = rounded(weights, GetParam());
  int turned = 0;
  for (int64_t at = 0; at < weights.elements(); ++at) {
    const float weight = weights.data<float>()[at], one = result.data<float>()[at];
    EXPECT_EQ(one, nearest(one, GetParam()));
    EXPECT_LE(std::abs(static_cast<double>(one) - weight), step * std::max<double>(std::abs(weight), least));
    turned += one != nearest(weight, GetParam());
  }
  EXPECT_GT(turned, 0);
  EXPECT_LT(turned, weights.elements() / 4);
}

/// Of rows of so many weights: the mean square of the errors of their sums, beside that of rounding to nearest.
double share_of_errors(const Tensor& weights, int64_t row, DType type) {
  const Tensor result = rounded(weights, type);
  double kept = 0, plain = 0;
  for (int64_t begin = 0; begin < weights.elements(); begin += row) {
    double sum = 0, sum_of_nearest = 0;
    for (int64_t at = begin; at < begin + row; ++at) {
      sum += static_cast<double>(result.data<float>()[at]) - weights.data<float>()[at];
      sum_of_nearest += static_cast<double>(nearest(weights.data<float>()[at], type)) - weights.data<float>()[at];
    }
    kept += sum * sum, plain += sum_of_nearest * sum_of_nearest;
  }
  return kept / plain;
}

TEST_P(RoundWeights, KeepsTheSumsOfWindows) {
  EXPECT_LT(share_of_errors(noise({64, 4, 3, 3}, 0.5f), 9, GetParam()), 0.1);
  EXPECT_LT(share_of_errors(noise({64, 1, 5, 5}, 0.5f), 25, GetParam()), 0.1);
}

TEST_P(RoundWeights, KeepsTheSumsOfChannelsWhereWindowsAreOnePixel) {
  EXPECT_LT(share_of_errors(noise({16, 200, 1, 1}, 0.5f), 200, GetParam()), 0.02);
  EXPECT_LT(share_of_errors(noise({16, 200}, 0.5f), 200, GetParam()), 0.02);
}

TEST_P(RoundWeights, LeavesWhatIsExact) {
  Tensor weights = noise({8, 4, 3, 3}, 0.5f);
  for (int64_t at = 0; at < weights.elements(); ++at)
    weights.data<float>()[at] = at % 7 == 0 ? 0 : nearest(weights.data<float>()[at], GetParam());
  const Tensor result = rounded(weights, GetParam());
  for (int64_t at = 0; at < weights.elements(); ++at)
    EXPECT_EQ(result.data<float>()[at], weights.data<float>()[at]) << at;
}

TEST_P(RoundWeights, RoundsToNearestBesideInfinityAndNan) {
  Tensor weights = noise({3, 1, 3, 3}, 0.5f);
  weights.data<float>()[4] = std::numeric_limits<float>::quiet_NaN();
  weights.data<float>()[10] = -std::numeric_limits<float>::infinity();
  weights.data<float>()[20] = 3.4e38f;  // of neither type
  const Tensor result = rounded(weights, GetParam());
  for (int64_t at = 0; at < weights.elements(); ++at) {
    const float expected = nearest(weights.data<float>()[at], GetParam()), got = result.data<float>()[at];
    EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << at;
  }
}

TEST_P(RoundWeights, TakesEmptyOnes) {
  EXPECT_EQ(rounded(Tensor(DType::f32, {0, 3, 3, 3}), GetParam()).elements(), 0);
  EXPECT_EQ(rounded(Tensor(DType::f32, {4, 0, 1, 1}), GetParam()).elements(), 0);
}

INSTANTIATE_TEST_SUITE_P(Types, RoundWeights, ::testing::Values(DType::f16, DType::bf16, DType::f8e4m3fn),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tenon
