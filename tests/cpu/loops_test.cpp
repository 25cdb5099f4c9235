// SPDX-License-Identifier: Apache-2.0
// Loops that give the same bits on every instruction set this machine has.
#include "backends/cpu/kernels/f32/loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/kernels/f32/norm_rows.h"
#include "backends/cpu/kernels/f32/rows.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kCounts[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 50, 64, 100, 1000, 1024, 1025, 5000};

std::vector<Isa> sets() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::portable, Isa::fused, Isa::avx2, Isa::avx512})
    if (isa <= std::max(detect_isa(), Isa::fused)) all.push_back(isa);
  return all;
}

std::vector<float> row_of(int64_t count, float low, float high) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> row(static_cast<size_t>(count));
  for (float& x : row) x = uniform(random);
  return row;
}

template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

TEST(Loops, FoldsAndMomentsAreTheSameEverywhere) {
  for (const int64_t count : kCounts) {
    const std::vector<float> row = row_of(count, -3, 5);
    for (const Isa isa : sets()) {
      const Loops &one = loops(Isa::portable), &other = loops(isa);
      for (const Before before : {Before::none, Before::absolute, Before::square}) {
        const float expected = one.fold(Fold::sum, before, row.data(), count);
        EXPECT_TRUE(same(other.fold(Fold::sum, before, row.data(), count), expected)) << isa_name(isa) << " " << count;
      }
      const Moments a = one.moments(row.data(), count), b = other.moments(row.data(), count);
      EXPECT_TRUE(same(a.mean, b.mean) && same(a.variance, b.variance)) << isa_name(isa) << " " << count;
    }
  }
}

// Rows far from 0, alone and beside others, in place: each as by double arithmetic, and the same bits everywhere.
TEST(Loops, RowsAreNormalisedTheSameEverywhere) {
  constexpr int64_t rows = 7;
  for (const int64_t count : kCounts) {
    if (count > norm_rows_longest) continue;
    const std::vector<float> all = row_of(rows * count, 20, 25), scale = row_of(count, 0.5, 2),
                             bias = row_of(count, -1, 1);
    for (const bool centred : {false, true}) {
      const NormRows norm{count, 1e-5f, centred, scale.data(), centred ? bias.data() : nullptr};
      std::vector<float> expected = all;
      norm_rows(Isa::portable)(expected.data(), expected.data(), rows, norm);
      for (int64_t row = 0; row < rows; ++row) {
        const float* x = all.data() + row * count;
        double mean = 0, variance = 0;
        for (int64_t at = 0; at < count && centred; ++at) mean += x[at] / static_cast<double>(count);
        for (int64_t at = 0; at < count; ++at) variance += (x[at] - mean) * (x[at] - mean) / static_cast<double>(count);
        for (int64_t at = 0; at < count; ++at) {
          const double y = (x[at] - mean) / std::sqrt(variance + 1e-5) * scale[at] + (centred ? bias[at] : 0);
          ASSERT_NEAR(expected[row * count + at], y, 2e-5) << count << " " << row << " " << at;
        }
      }
      for (const Isa isa : sets())
        for (const int64_t first : {int64_t{0}, int64_t{2}, rows - 1}) {
          std::vector<float> other((rows - first) * count);
          norm_rows(isa)(other.data(), all.data() + first * count, rows - first, norm);
          EXPECT_EQ(std::memcmp(expected.data() + first * count, other.data(), other.size() * sizeof(float)), 0)
              << isa_name(isa) << " " << count << " from row " << first;
        }
    }
  }
}

TEST(Loops, EndsAreTheSmallestAndTheLargest) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t count : kCounts)
    for (const Isa isa : sets()) {
      std::vector<float> row = row_of(count, -3, 5);
      const auto check = [&](const char* what) {
        float low, high;
        loops(isa).ends(row.data(), count, &low, &high);
        EXPECT_EQ(low, *std::min_element(row.begin(), row.end())) << what << " " << isa_name(isa) << " " << count;
        EXPECT_EQ(high, *std::max_element(row.begin(), row.end())) << what << " " << isa_name(isa) << " " << count;
      };
      check("finite");
      row[static_cast<size_t>(count / 2)] = 7;
      check("inside");
      row.back() = -infinity;
      check("infinite");
      for (const int64_t at : {int64_t{0}, count / 3, count - 1}) {
        row = row_of(count, -3, 5);
        row[static_cast<size_t>(at)] = nan;
        float low, high;
        loops(isa).ends(row.data(), count, &low, &high);
        EXPECT_TRUE(std::isnan(low) && std::isnan(high)) << isa_name(isa) << " " << count << " at " << at;
      }
    }
}

// exp has fused steps, but for portable. Rows give the same alone and beside others.
TEST(Loops, SoftmaxIsTheSameForAllWidthsWithFusedSteps) {
  constexpr int64_t rows = 7, behind = 3;
  for (const int64_t count : kCounts) {
    const int64_t pitch = count + behind;
    const std::vector<float> all = row_of(rows * pitch, -9, 9);
    std::vector<float> one(all.size(), 2.f), other(all.size(), 2.f);
    for (int64_t row = 0; row < rows; ++row) {
      row_ops(Isa::fused).softmax(one.data() + row * pitch, all.data() + row * pitch, 1, pitch, count);
      double sum = 0;
      for (int64_t at = 0; at < count; ++at) sum += one[row * pitch + at];
      EXPECT_NEAR(sum, 1, 1e-5) << count;
    }
    for (const Isa isa : sets()) {
      if (isa < Isa::fused) continue;
      row_ops(isa).softmax(other.data(), all.data(), rows, pitch, count);
      EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size() * sizeof(float)), 0) << isa_name(isa) << " " << count;
    }
  }
}

// Whole vectors, several of them and the tail, rows that come in two parts, NaN at any place of any row.
TEST(Loops, RowsFoldElementByElementAndKeepNaN) {
  constexpr int64_t many = 9, part = 4;
  for (const int64_t count : kCounts) {
    std::vector<std::vector<float>> rows;
    std::vector<const float*> at;
    for (int64_t row = 0; row < many; ++row) {
      rows.push_back(row_of(count, -9, 9));
      std::rotate(rows[row].begin(), rows[row].begin() + row % count, rows[row].end());
      rows[row][(7 * row) % count] = row % 3 == 1 ? std::numeric_limits<float>::quiet_NaN() : INFINITY;
      at.push_back(rows[row].data());
    }
    for (const bool largest : {true, false})
      for (const Isa isa : sets()) {
        std::vector<float> got(static_cast<size_t>(count), -77.f);
        row_ops(isa).fold(largest, got.data(), at.data(), part, count, false);
        row_ops(isa).fold(largest, got.data(), at.data() + part, many - part, count, true);
        for (int64_t i = 0; i < count; ++i) {
          float expected = rows[0][i];
          for (int64_t row = 1; row < many; ++row) {
            const float x = rows[row][i];
            expected = !largest ? expected + x : std::isnan(x) || x > expected ? x : expected;
          }
          EXPECT_TRUE(got[i] == expected || (std::isnan(got[i]) && std::isnan(expected)))
              << isa_name(isa) << " " << count << " at " << i << ": " << got[i] << ", not " << expected;
        }
      }
  }
}

TEST(Loops, PixelsAreTheBytesOfTheirPlanes) {
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1e30f, 0.5f};
  for (const int64_t count : kCounts)
    for (const float scale : {1.f, 1.f / 255, 0.0371f, 1e-30f})
      for (int planes = 1; planes <= 4; ++planes)
        for (const int64_t step : {planes, planes + 3}) {
          // Halves are as near to two bytes as can be.
          std::vector<float> numbers = row_of(count * planes, -40, 300);
          for (size_t at = 0; at < numbers.size(); ++at)
            numbers[at] = at % 7 == 5 ? odd[at % 4] : (at % 3 ? numbers[at] : std::floor(numbers[at]) + 0.5f) * scale;
          for (const Isa isa : sets()) {
            constexpr uint8_t kMark = 0xa5;
            std::vector<uint8_t> pixels(static_cast<size_t>(count * step), kMark), line(static_cast<size_t>(count));
            std::vector<uint8_t> expected = pixels;
            for (int c = 0; c < planes; ++c) {
              loops(Isa::portable).quantise_u8(line.data(), numbers.data() + c * count, scale, 9, count);
              for (int64_t at = 0; at < count; ++at) expected[at * step + c] = line[at];
            }
            // The last pixel ends with its last plane.
            const size_t used = static_cast<size_t>((count - 1) * step + planes);
            std::vector<uint8_t> exact(used, kMark);
            loops(isa).quantise_pixels(exact.data(), step, numbers.data(), count, planes, scale, 9, count);
            expected.resize(used);
            EXPECT_EQ(exact, expected) << isa_name(isa) << " " << count << " " << planes << " " << step << " " << scale;
          }
        }
}

}  // namespace
}  // namespace tenon::cpu
