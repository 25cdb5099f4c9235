// SPDX-License-Identifier: Apache-2.0
#include "quant/histogram.h"

#include <gtest/gtest.h>
#include <tenon/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace tenon::quant {
namespace {

std::vector<float> numbers(size_t count) {
  std::mt19937 random(5);
  std::vector<float> values(count);
  for (float& value : values) {
    const double u = (random() >> 8) / double(1 << 24) - 0.5;
    value = static_cast<float>(u * u * u * std::exp2(random() % 12));
  }
  for (size_t at = 0; at < count; at += 7) values[at] = 0;
  return values;
}

Histogram of(const std::vector<float>& values) {
  Histogram histogram;
  histogram.add(values.data(), static_cast<int64_t>(values.size()));
  return histogram;
}

TEST(histogram, counts_each_value_in_its_bin) {
  const std::vector<float> values = numbers(5000);
  const Histogram histogram = of(values);
  double reach = std::ldexp(1.0, -60);
  for (const float value : values)
    while (reach <= std::fabs(value)) reach *= 2;
  EXPECT_EQ(histogram.width(), reach / Histogram::bins);
  std::vector<int64_t> positives(Histogram::bins), negatives(Histogram::bins);
  for (const float value : values)
    ++(value < 0 ? negatives : positives)[std::floor(std::fabs(value) / (reach / Histogram::bins))];
  EXPECT_TRUE(std::ranges::equal(histogram.positives(), positives));
  EXPECT_TRUE(std::ranges::equal(histogram.negatives(), negatives));
  EXPECT_EQ(histogram.count(), 5000);
  EXPECT_EQ(histogram.zeros(), std::count(values.begin(), values.end(), 0.f));
  EXPECT_EQ(histogram.low(), *std::ranges::min_element(values));
  EXPECT_EQ(histogram.high(), *std::ranges::max_element(values));
  EXPECT_GE(histogram.magnitudes().size(), Histogram::bins / 2);
}

TEST(histogram, does_not_depend_on_order_or_batches) {
  std::vector<float> values = numbers(5000);
  const Histogram whole = of(values);
  std::sort(values.begin(), values.end());
  Histogram parts;
  for (size_t at = 0; at < values.size(); at += 100) {
    Histogram part;
    part.add(values.data() + at, 60);
    parts.add(values.data() + at + 60, 40);
    parts.merge(part);
  }
  EXPECT_TRUE(parts == whole);
}

TEST(histogram, keeps_apart_what_is_not_finite) {
  const float inf = std::numeric_limits<float>::infinity();
  const Histogram histogram = of({1, NAN, -2, inf, -inf});
  EXPECT_EQ(histogram.not_finite(), 3);
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_EQ(histogram.low(), -2);
  EXPECT_EQ(histogram.high(), 1);
  EXPECT_EQ(of({NAN}).high(), 0);
}

TEST(histogram, takes_the_ends_of_float) {
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  const Histogram histogram = of({most, -most, least, 1e-30f});
  EXPECT_EQ(histogram.positives()[0], 2);
  EXPECT_EQ(histogram.positives()[Histogram::bins - 1], 1);
  EXPECT_EQ(histogram.negatives()[Histogram::bins - 1], 1);
}

TEST(histogram, reads_back_what_it_writes) {
  const Histogram histogram = of(numbers(3000));
  EXPECT_TRUE(Histogram::parse(histogram.str()) == histogram);
  EXPECT_TRUE(Histogram::parse(Histogram().str()) == Histogram());
}

TEST(histogram, refuses_damaged_text) {
  const std::string good = of({1, 2, -3}).str();
  for (const std::string& bad : {std::string(), std::string("2 3 0 0 -3 2"), "9" + good,
                                 std::string("2 3 0 0 -3 2 5 -4095 -4096"), std::string("2 3 0 0 -3 2 -9999999999"),
                                 std::string("1 3 0 0 -3 2 -4096 3 -4095"), std::string("2 3 0 0 3 2 -4096 3 -4095")}) {
    EXPECT_THROW(Histogram::parse(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace tenon::quant
