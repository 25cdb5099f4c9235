// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/int8/byte_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace tenon::cpu {
namespace {

/// Five rows times weights of bytes, one of the rows not finite.
struct Product {
  static constexpr int64_t rows = 5, k = 37, n = 150;
  std::vector<float> x = std::vector<float>(rows * k), bias = std::vector<float>(n), scales = bias;
  std::vector<uint8_t> bytes = std::vector<uint8_t>(n * k), zeros = std::vector<uint8_t>(n);

  Product() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (auto* const list : {&x, &bias}) std::generate(list->begin(), list->end(), [&] { return normal(random); });
    x[3 * k + 5] = INFINITY;
    for (float& scale : scales) scale = 0.01f + std::fabs(normal(random)) / 100;
    for (auto* const list : {&bytes, &zeros})
      std::generate(list->begin(), list->end(), [&] { return static_cast<uint8_t>(random()); });
    bytes[0] = 255, zeros[0] = 0, bytes[k] = 0, zeros[1] = 255;
  }

  std::vector<float> by(const ByteRowOps& ops) const {
    const ByteRowWeights form{n, k, nullptr};
    std::vector<std::byte> packed(byte_panels(form, ops.columns) * byte_panel_bytes(form, ops.columns));
    pack_byte_rows(form, ops.columns, bytes.data(), zeros.data(), scales.data(), packed.data());
    std::vector<std::vector<int8_t>> parts(2 * rows, std::vector<int8_t>(byte_row_steps(k) * 4));
    std::vector<RoundedRow> rounded(rows);
    for (int64_t row = 0; row < rows; ++row) {
      rounded[row].high = parts[2 * row].data(), rounded[row].low = parts[2 * row + 1].data();
      ops.round(x.data() + row * k, k, rounded[row]);
    }
    std::vector<float> c(rows * n);
    ops.multiply({n, k, packed.data()}, rounded.data(), rows, bias.data(), c.data(), n, 0,
                 byte_panels(form, ops.columns));
    return c;
  }
};

TEST(ByteRows, GiveTheSameBitsByEveryInstructionSet) {
  const Product product;
  const std::vector<float> expected = product.by(byte_row_ops(Isa::portable, false));
  for (int64_t column = 0; column < Product::n; ++column) {
    double sum = product.bias[column];
    for (int64_t at = 0; at < Product::k; ++at)
      sum += double{product.x[at]} * product.scales[column] *
             (product.bytes[column * Product::k + at] - product.zeros[column]);
    EXPECT_NEAR(expected[column], sum, 2e-3) << column;
  }
  for (const Isa isa : {Isa::avx2, Isa::avx512})
    for (const bool dot : {false, true})
      if (isa <= detect_isa() && (!dot || has_int8_dot(isa))) {
        EXPECT_EQ(product.by(byte_row_ops(isa, dot)), expected) << isa_name(isa) << dot;
      }
}

}  // namespace
}  // namespace tenon::cpu
