// SPDX-License-Identifier: Apache-2.0
#include "quant/compensate.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon {
namespace {

constexpr int64_t columns = 150, rows = 400;

std::vector<float> data() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(columns * rows));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t at = 0; at < columns; ++at)
      x[row * columns + at] = normal(random) + (at ? 0.8f * x[row * columns + at - 1] : 0);
  return x;
}

/// U' U (X' X + d) = 1, in each piece, for one thread as for several.
TEST(Compensate, FactorsAreThoseOfTheInverse) {
  const std::vector<float> x = data();
  for (const int threads : {1, 3}) {
    ThreadPool thread_pool(threads);
    quant::InputProducts products(columns, 32);
    products.add(x.data(), 123, thread_pool);
    products.add(x.data() + 123 * columns, rows - 123, thread_pool);
    EXPECT_EQ(products.rows(), rows);
    products.factorise(thread_pool);
    ASSERT_EQ(products.pieces().size(), 1u);
    const float* u = products.pieces()[0].products.data();
    std::vector<double> h(static_cast<size_t>(columns * columns));
    double power = 0;
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t row = 0; row < rows; ++row)
          h[i * columns + j] += double{x[row * columns + i]} * x[row * columns + j];
    for (int64_t i = 0; i < columns; ++i) power += h[i * columns + i];
    for (int64_t i = 0; i < columns; ++i) h[i * columns + i] += 0.01 * power / columns;
    double worst = 0;
    for (int64_t i = 0; i < columns; ++i) {
      std::vector<double> inverse(static_cast<size_t>(columns));  // row i of U' U
      for (int64_t m = 0; m <= i; ++m)
        for (int64_t j = m; j < columns; ++j) inverse[j] += double{u[m * columns + i]} * u[m * columns + j];
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t m = 0; m < columns; ++m) sum += inverse[m] * h[m * columns + j];
        worst = std::max(worst, std::abs(sum - (i == j)));
      }
    }
    EXPECT_LT(worst, 1e-3) << threads;
  }
}

TEST(Compensate, PiecesAreWholeBlocks) {
  const quant::InputProducts products(5000, 128);
  ASSERT_EQ(products.pieces().size(), 3u);
  EXPECT_EQ(products.pieces()[0].count, 1792);
  EXPECT_EQ(products.pieces()[2].begin, 3584);
  EXPECT_EQ(products.pieces()[2].count, 5000 - 3584);
}

}  // namespace
}  // namespace tenon
