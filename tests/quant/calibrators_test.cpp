// SPDX-License-Identifier: Apache-2.0
#include "quant/calibrators.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

/// Against oracle.py, which does it the long way with NumPy on the same numbers.
namespace tenon::quant {
namespace {

constexpr int count = 20000;

std::vector<float> numbers(const std::string& name) {
  uint32_t state = 1;
  std::vector<float> values;
  for (int at = 0; at < count; ++at) {
    double bell = 0;
    for (int part = 0; part < 4; ++part) {
      state = state * 1664525u + 1013904223u;
      bell += (state >> 8) / double(1 << 24);
    }
    bell -= 2;
    double value = 0;
    if (name == "bell") value = bell * 3;
    else if (name == "relu") value = std::max(bell, 0.0);
    else if (name == "tail") value = bell * bell * bell * 40;
    else if (name == "lean") value = bell < 0 ? bell * 0.125 : bell * 2;
    else if (name == "spike") value = at % 5000 == 7 ? 50.0 : bell;
    else if (name == "mask") value = bell < 0.5 ? 0 : 1;
    else if (name == "swish") {
      const double wide = 4 * bell * bell * bell - 2;
      value = wide / (1 + std::exp(-wide));
    }
    values.push_back(static_cast<float>(value));
  }
  return values;
}

double error_on(const std::vector<float>& values, const Quantiser& quantiser) {
  double sum = 0;
  for (const float value : values) sum += std::pow(double(value) - quantiser.round(value), 2);
  return sum / static_cast<double>(values.size());
}

TEST(calibrators, give_what_the_oracle_gives) {
  static const std::map<std::string, CalibrationMethod> methods{{"minmax", CalibrationMethod::min_max},
                                                                {"percentile", CalibrationMethod::percentile},
                                                                {"mse", CalibrationMethod::mse},
                                                                {"entropy", CalibrationMethod::entropy},
                                                                {"entropy-legacy", CalibrationMethod::entropy_legacy}};
  std::ifstream golden(std::string(TENON_SOURCE_DIR) + "/tests/quant/calibrators.golden");
  std::string set, method;
  float low, high;
  double error;
  int lines = 0;
  for (; golden >> set >> method >> low >> high >> error; ++lines) {
    const std::vector<float> values = numbers(set);
    Histogram histogram;
    histogram.add(values.data(), count);
    const Range range = range_of(histogram, methods.at(method), 99.9);
    const double ours = error_on(values, Quantiser::of(range));
    if (method == "mse") {
      EXPECT_LE(ours, error * 1.03) << set;
      EXPECT_NEAR(squared_error(histogram, Quantiser::of(range)), ours, ours * 0.1 + 1e-7) << set;
      continue;
    }
    EXPECT_FLOAT_EQ(range.low, low) << set << " " << method;
    EXPECT_FLOAT_EQ(range.high, high) << set << " " << method;
    EXPECT_NEAR(ours, error, error * 1e-2) << set << " " << method;
  }
  EXPECT_EQ(lines, 35);
}

/// Values that lie far out are few, and it is they that detectors find objects by.
TEST(calibrators, entropy_cuts_off_little) {
  for (const char* name : {"bell", "relu", "lean", "spike", "swish"}) {
    const std::vector<float> values = numbers(name);
    Histogram histogram;
    histogram.add(values.data(), count);
    const double least = error_on(values, Quantiser::of(mse_range(histogram)));
    for (const CalibrationMethod method : {CalibrationMethod::entropy, CalibrationMethod::entropy_legacy}) {
      const Range range = range_of(histogram, method, 100);
      EXPECT_LT(error_on(values, Quantiser::of(range)), 100 * least) << name;
      const auto cut =
          std::count_if(values.begin(), values.end(), [&](float x) { return x < range.low || x > range.high; });
      EXPECT_LT(static_cast<double>(cut), 0.005 * count) << name;
    }
  }
}

TEST(calibrators, entropy_keeps_values_of_one_size) {
  const std::vector<float> values = numbers("mask"), constant(100, -5.f);
  Histogram histogram, same;
  histogram.add(values.data(), count), same.add(constant.data(), 100);
  EXPECT_FLOAT_EQ(range_of(histogram, CalibrationMethod::entropy, 100).high, 1);
  EXPECT_FLOAT_EQ(range_of(same, CalibrationMethod::entropy, 100).low, -5);
}

TEST(calibrators, take_tensors_of_nothing) {
  for (const std::vector<float>& values : {std::vector<float>{}, {0, 0, 0}, {5, 5}, {-1e-20f}}) {
    Histogram histogram;
    histogram.add(values.data(), static_cast<int64_t>(values.size()));
    for (const CalibrationMethod method : {CalibrationMethod::min_max, CalibrationMethod::percentile,
                                           CalibrationMethod::mse, CalibrationMethod::entropy}) {
      const Range range = range_of(histogram, method, 99.99);
      EXPECT_GE(range.low, std::min(histogram.low(), 0.f));
      EXPECT_LE(range.high, std::max(histogram.high(), 0.f));
      EXPECT_GT(Quantiser::of(range).scale, 0);
    }
  }
}

TEST(calibrators, keep_zero_exact) {
  const Quantiser leaning = Quantiser::of({-0.28f, 6}), above = Quantiser::of({2, 6});
  EXPECT_EQ(leaning.round(0), 0);
  EXPECT_EQ(leaning.zero, 11);
  EXPECT_EQ(above.zero, 0);
  EXPECT_FLOAT_EQ(above.scale, 6.f / 255);
  EXPECT_FLOAT_EQ(above.round(7), 6);
}

}  // namespace
}  // namespace tenon::quant
