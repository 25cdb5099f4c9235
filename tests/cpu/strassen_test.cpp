// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "conv_check.h"

namespace tenon::cpu {
namespace {

using conv_check::Case;
using conv_check::Data;

constexpr int64_t kRows = 300, kK = 776, kColumns = 200;

/// Two chunks of rows, two parts of K, blocks of columns in pairs and one without; no bias.
Case product() {
  Case one = conv_check::make_case(1, 1, kRows, kK, kColumns, 1, 1, 1, {});
  one.bias = false;
  return one;
}

const ConvTactic* tactic_named(Isa isa, const std::string& name) {
  for (const ConvTactic& tactic : conv_tactics(isa))
    if (tactic.name == name) return &tactic;
  return nullptr;
}

void scale_row(Data& data, int64_t row, float by) {
  for (int64_t k = 0; k < kK; ++k) data.in[row * kK + k] *= by;
}

void scale_column(Data& data, int64_t column, float by) {
  for (int64_t k = 0; k < kK; ++k) data.weights[column * kK + k] *= by;
}

double norm(const float* values) {
  double sum = 0;
  for (int64_t k = 0; k < kK; ++k) sum += double{values[k]} * values[k];
  return std::sqrt(sum);
}

/// The worst error, relative to the norms of row and column; infinite where zeros are not zeros.
double worst_error(const Data& data, const std::vector<float>& out, const std::vector<double>& expected) {
  double worst = 0;
  std::vector<double> of_columns(kColumns);
  for (int64_t column = 0; column < kColumns; ++column) of_columns[column] = norm(&data.weights[column * kK]);
  for (int64_t row = 0; row < kRows; ++row) {
    const double of_row = norm(&data.in[row * kK]);
    for (int64_t column = 0; column < kColumns; ++column) {
      const double error = std::abs(out[row * kColumns + column] - expected[row * kColumns + column]);
      if (error != 0) worst = std::max(worst, error / (of_row * of_columns[column]));
    }
  }
  return worst;
}

struct Change {
  const char* what;
  std::function<void(Data&)> make;
};

const Change changes[] = {
    {"a large row", [](Data& d) { scale_row(d, 10, 1000); }},
    {"a small row", [](Data& d) { scale_row(d, 290, 1e-3f); }},
    {"a row of zeros", [](Data& d) { scale_row(d, 200, 0); }},
    {"a row large in a part of K",
     [](Data& d) {
       for (int64_t k = 500; k < kK; ++k) d.in[10 * kK + k] *= 1000;
     }},
    {"a large step of K with small weights",
     [](Data& d) {
       for (int64_t row = 0; row < kRows; ++row) d.in[row * kK + 3] *= 1000;
       for (int64_t column = 0; column < kColumns; ++column) d.weights[column * kK + 3] *= 1e-3f;
     }},
    {"a large column", [](Data& d) { scale_column(d, 7, 1000); }},
    {"a small column", [](Data& d) { scale_column(d, 130, 1e-3f); }},
    {"a column of zeros", [](Data& d) { scale_column(d, 5, 0); }},
    {"all of them", [](Data& d) { scale_row(d, 10, 1000), scale_row(d, 200, 0), scale_column(d, 5, 0); }},
};

/// Each row and column is as near to double precision, for its own size, as plain sums are; zeros are zeros.
TEST(Strassen, RowsAndColumnsOfUnlikeSizeKeepTheirDigits) {
  const Case one = product();
  for (const Change& change : changes) {
    Data data = conv_check::make_data(one);
    change.make(data);
    const std::vector<double> expected = conv_check::reference(one, data);
    for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
      if (isa > detect_isa()) continue;
      const ConvTactic *seven = tactic_named(isa, "strassen"), *direct = tactic_named(isa, "direct");
      ASSERT_TRUE(seven && direct && !seven->refuses(one.shape, one.epilogue));
      const std::vector<float> out = conv_check::run_kernel(*seven, one, data, 1);
      const double plain = worst_error(data, conv_check::run_kernel(*direct, one, data, 1), expected);
      EXPECT_LE(worst_error(data, out, expected), 4 * plain) << change.what << ", " << isa_name(isa);
      EXPECT_LE(plain, 1e-6) << change.what << ", " << isa_name(isa);
      for (int threads : {2, 3, 4})
        EXPECT_EQ(conv_check::run_kernel(*seven, one, data, threads), out) << change.what << ", " << isa_name(isa);
    }
  }
}

/// A large row is multiplied plainly with its chunk alone, a column with its pair of blocks.
TEST(Strassen, OthersStayByTheSameWay) {
  const Case one = product();
  const Data data = conv_check::make_data(one);
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa > detect_isa()) continue;
    const ConvTactic *seven = tactic_named(isa, "strassen"), *direct = tactic_named(isa, "direct");
    ASSERT_TRUE(seven && direct);
    const std::vector<float> out = conv_check::run_kernel(*seven, one, data, 1),
                             plain = conv_check::run_kernel(*direct, one, data, 1);
    const auto alike = [&](const std::vector<float>& other, int64_t row, int64_t column) {
      return out[row * kColumns + column] == other[row * kColumns + column];
    };
    Data of_row = data, of_column = data;
    scale_row(of_row, 10, 1000), scale_column(of_column, 7, 1000);
    const std::vector<float> with_row = conv_check::run_kernel(*seven, one, of_row, 1),
                             with_column = conv_check::run_kernel(*seven, one, of_column, 1);
    int64_t others = 0, of_chunk = 0, of_pair = 0;
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < kColumns; ++column) {
        if (column < 160 && !alike(plain, row, column)) ++others;
        if (row >= 168) EXPECT_TRUE(alike(with_row, row, column)) << row << " " << column << " " << isa_name(isa);
        else if (row != 10) of_chunk += !alike(with_row, row, column);
        if (column % 96 >= 32) EXPECT_TRUE(alike(with_column, row, column)) << row << " " << column << isa_name(isa);
        else if (column != 7) of_pair += !alike(with_column, row, column);
      }
    EXPECT_GT(others, kRows * 160 / 4) << isa_name(isa);
    EXPECT_GT(of_chunk, 0) << isa_name(isa);
    EXPECT_GT(of_pair, 0) << isa_name(isa);
  }
}

}  // namespace
}  // namespace tenon::cpu
