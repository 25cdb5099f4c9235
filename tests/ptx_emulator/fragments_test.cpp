// SPDX-License-Identifier: Apache-2.0
// Narrow floats and tensor cores of the emulated GPU. What an exact number becomes is looked for among all numbers of
// the format; where numbers of fragments stand is written as the PTX manual draws it.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "try.h"

namespace tenon::tests {
namespace {

/// A float of few bits: sign, exponent, mantissa.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;
  uint32_t count() const { return 1u << (exponent_bits + mantissa_bits); }  // without sign
  double value(uint32_t bits) const {
    const int exponent = static_cast<int>(bits >> mantissa_bits), bias = (1 << (exponent_bits - 1)) - 1;
    const double mantissa = (bits & ((1u << mantissa_bits) - 1)) / std::ldexp(1, mantissa_bits);
    return exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias);
  }
  uint32_t finite() const { return has_infinity ? ((1u << exponent_bits) - 1) << mantissa_bits : count() - 1; }
};
constexpr Format f16{5, 10, true}, bf16{8, 7, true}, e4m3{4, 3, false};

/// The bits nearest to a number, of two as near those that are even; beyond the largest infinity or, saturated, it.
uint32_t nearest(__float128 x, const Format& format, bool is_negative, bool saturates) {
  if (x < 0) x = -x;
  const uint32_t sign = is_negative ? format.count() : 0;
  uint32_t low = 0, high = format.finite();  // the next power of two stands for infinity
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (static_cast<__float128>(format.value(middle)) <= x ? low : high) = middle;
  }
  const __float128 below = x - static_cast<__float128>(format.value(low)),
                   above = static_cast<__float128>(format.value(high)) - x;
  uint32_t best = below < above ? low : above < below ? high : low % 2 ? high : low;
  if (saturates && best >= format.finite()) best = format.finite() - 1;
  return sign | best;
}

void expect_rounded(const std::string& body, const Format& format, bool saturates, uint32_t nan) {
  const Numbers a = some_floats(7, 512), got = results_of(body, a);
  for (size_t at = 0; at < a.size(); ++at) {
    const float x = f32(a[at]);
    if (std::isinf(x)) continue;
    const uint32_t expected = std::isnan(x) ? nan : nearest(x, format, std::signbit(x), saturates);
    ASSERT_EQ(got[at], expected) << body << " of " << x;
  }
}

TEST(Conversions, ToNarrowFloats) {
  expect_rounded("cvt.rn.f16.f32 %hd, %wa;", f16, false, 0x7fff);
  expect_rounded("cvt.rn.bf16.f32 %hd, %wa;", bf16, false, 0x7fff);
  expect_rounded("cvt.rn.f16x2.f32 %w0, 0f00000000, %wa; and.b32 %wd, %w0, 0xffff;", f16, false, 0x7fff);
  expect_rounded("cvt.rn.bf16x2.f32 %w0, %wa, 0f00000000; shr.u32 %wd, %w0, 16;", bf16, false, 0x7fff);
  expect_rounded("cvt.rn.satfinite.e4m3x2.f32 %hd, 0f00000000, %wa;", e4m3, true, 0x7f);
}

TEST(Conversions, FromNarrowFloats) {
  Numbers a;
  for (uint64_t bits = 0; bits < f16.finite(); bits += 97) a.push_back(bits), a.push_back(bits | f16.count());
  a.resize(512);
  const Numbers got = results_of("cvt.f32.f16 %wd, %ha;", a);
  for (size_t at = 0; at < a.size(); ++at)
    EXPECT_EQ(f32(got[at]), (a[at] & 0x8000 ? -1 : 1) * f16.value(a[at] & 0x7fff)) << a[at];
  EXPECT_EQ(results_of("cvt.f32.f16 %wd, %ha;", {0x7c00, 0xfc00}), (Numbers{0x7f800000, 0xff800000}));
  Numbers bytes;
  for (uint64_t byte = 0; byte < e4m3.finite(); ++byte) bytes.push_back(byte);
  const Numbers halves = results_of("cvt.rn.f16x2.e4m3x2 %w0, %ha; cvt.u16.u32 %h0, %w0; cvt.f32.f16 %wd, %h0;", bytes);
  for (size_t at = 0; at < bytes.size(); ++at) EXPECT_EQ(f32(halves[at]), e4m3.value(static_cast<uint32_t>(at)));
}

TEST(Conversions, OfFloatsAndIntegers) {
  const Numbers a = some_floats(9, 512);
  const auto expect = [&](const std::string& body, const std::function<double(double)>& rounded, double least,
                          double most) {
    const Numbers got = results_of(body, a);
    for (size_t at = 0; at < a.size(); ++at) {
      const double x = rounded(f32(a[at]));
      const int64_t expected = std::isnan(x) ? 0 : static_cast<int64_t>(std::min(std::max(x, least), most));
      ASSERT_EQ(got[at], static_cast<uint64_t>(expected) & 0xffffffff) << body << " of " << f32(a[at]);
    }
  };
  constexpr double least = -2147483648.0, most = 2147483647;
  expect(
      "cvt.rni.s32.f32 %wd, %wa;", [](double x) { return std::nearbyint(x); }, least, most);
  expect(
      "cvt.rzi.s32.f32 %wd, %wa;", [](double x) { return std::trunc(x); }, least, most);
  expect(
      "cvt.rmi.s32.f32 %wd, %wa;", [](double x) { return std::floor(x); }, least, most);
  expect(
      "cvt.rpi.u32.f32 %wd, %wa;", [](double x) { return std::ceil(x); }, 0, 4294967295.0);
  const Numbers whole = some_numbers(4, 256), floats = results_of("cvt.rn.f32.s32 %wd, %wa;", whole);
  for (size_t at = 0; at < whole.size(); ++at)
    EXPECT_EQ(f32(floats[at]), static_cast<float>(static_cast<int32_t>(whole[at])));
  const Numbers round = results_of("cvt.rni.f32.f32 %wd, %wa;", a);
  for (size_t at = 0; at < a.size(); ++at)
    if (!std::isnan(f32(a[at]))) {
      ASSERT_EQ(f32(round[at]), std::nearbyint(f32(a[at])));
    }
  const Numbers bytes = results_of("cvt.sat.u8.s32 %wd, %wa;", whole), sign = results_of("cvt.s64.s8 %d, %wa;", whole);
  const Numbers packed = results_of("cvt.pack.sat.u8.s32.b32 %wd, %wa, 7, 0x1234;", whole);
  for (size_t at = 0; at < whole.size(); ++at) {
    const auto byte = static_cast<uint64_t>(std::min(std::max(static_cast<int32_t>(whole[at]), 0), 255));
    EXPECT_EQ(bytes[at], byte);
    EXPECT_EQ(packed[at], byte << 8 | 0x12340007);
    EXPECT_EQ(sign[at], static_cast<uint64_t>(int64_t{static_cast<int8_t>(whole[at])}));
  }
}

TEST(Conversions, ToTf32) {
  Numbers a = some_floats(11, 512);
  for (size_t at = 0; at < a.size(); at += 2) a[at] = (a[at] & ~0x1fffull) | 0x1000;  // halves
  const Numbers got = results_of("cvt.rna.tf32.f32 %wd, %wa;", a);
  for (size_t at = 0; at < a.size(); ++at) {
    const float x = f32(a[at]);
    if (!std::isfinite(x) || std::abs(x) < 0x1p-120f || std::abs(x) > 0x1p120f) continue;
    const double step = std::ldexp(1, std::ilogb(x) - 10);
    ASSERT_EQ(f32(got[at]), std::round(x / step) * step) << x;  // round: halves away from zero
  }
}

TEST(Halves, ProductsAndSumsAreRoundedOnce) {
  const Numbers a = some_numbers(1, 512), b = some_numbers(2, 512), c = some_numbers(3, 512);
  const auto value = [](uint64_t bits, const Format& format) {
    return (bits & format.count() ? -1 : 1) * static_cast<__float128>(format.value(bits & (format.count() - 1)));
  };
  for (const auto& [name, format] : {std::pair{"f16", f16}, {"bf16", bf16}}) {
    const std::string type = name;
    const Numbers fused = results_of("fma.rn." + type + " %hd, %ha, %hb, %hc;", a, b, c);
    const Numbers pairs = results_of("fma.rn." + type + "x2 %wd, %wa, %wb, %wc;", a, b, c);
    const Numbers sums = results_of("add." + type + " %hd, %ha, %hb;", a, b, c);
    for (size_t at = 0; at < a.size(); ++at)
      for (const int shift : {0, 16}) {
        const uint64_t x = a[at] >> shift & 0xffff, y = b[at] >> shift & 0xffff, z = c[at] >> shift & 0xffff;
        const auto is_usual = [&, finite = format.finite(), all = format.count()](uint64_t bits) {
          return (bits & (all - 1)) < finite;
        };
        if (!is_usual(x) || !is_usual(y) || !is_usual(z)) continue;
        const __float128 exact = value(x, format) * value(y, format) + value(z, format);
        // Where 113 bits hold the sum, too; and sums of f32, through which bf16 goes, are usual numbers.
        if (exact == 0 || exact - value(x, format) * value(y, format) != value(z, format)) continue;
        if (type == "bf16" && (exact < 0 ? -exact : exact) < 0x1p-100) continue;
        const uint32_t expected = nearest(exact, format, exact < 0, false);
        ASSERT_EQ(pairs[at] >> shift & 0xffff, expected) << type << std::hex << " " << x << " " << y << " " << z;
        if (shift == 0) {
          ASSERT_EQ(fused[at], expected);
        }
        const __float128 sum = value(x, format) + value(y, format);
        if (shift == 0 && sum != 0) {
          ASSERT_EQ(sums[at], nearest(sum, format, sum < 0, false));
        }
      }
  }
}

/// Numbers of a matrix by row and column.
using Matrix = std::vector<std::vector<double>>;

struct Product {
  std::string name;
  int rows, depth, bits;                        // of a number of A and B
  std::function<uint32_t(int)> a_bits, b_bits;  // of a small whole number
  bool is_whole, halves = false;
};

/// mma of small whole numbers, whose sums are exact in all types.
void expect_product(const Product& one) {
  const int per = 32 / one.bits, columns = 8;
  Matrix a(one.rows, std::vector<double>(one.depth)), b(one.depth, std::vector<double>(columns)),
      c(one.rows, std::vector<double>(columns));
  for (int m = 0; m < one.rows; ++m) {
    for (int k = 0; k < one.depth; ++k) a[m][k] = (m * 7 + k * 3) % 8;
    for (int n = 0; n < columns; ++n) c[m][n] = (m * 5 + n * 11) % 13;
  }
  for (int k = 0; k < one.depth; ++k)
    for (int n = 0; n < columns; ++n) b[k][n] = (k * 5 + n * 3) % 7 - 3;
  const int blocks = one.rows / 8, steps = one.depth / (4 * per);
  const int a_words = blocks * steps, b_words = steps, c_words = one.halves ? blocks : 2 * blocks;
  // Each lane's words follow each other: A, B, C, and room for D.
  const int words = a_words + b_words + c_words;
  std::vector<uint8_t> memory(32 * 4 * (words + c_words));
  const auto word = [&](int lane, int which) { return memory.data() + (lane * (words + c_words) + which) * 4; };
  const auto half_bits = [](double x) { return nearest(x, f16, x < 0, false); };
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane & 3;
    for (int i = 0; i < a_words * per; ++i) {
      const int which = i / per, row = group + which % blocks * 8,
                column = in_group * per + i % per + which / blocks * 4 * per;
      uint32_t bits = one.a_bits(static_cast<int>(a[row][column])) << (i % per * one.bits), old;
      std::memcpy(&old, word(lane, which), 4);
      bits |= old;
      std::memcpy(word(lane, which), &bits, 4);
    }
    for (int i = 0; i < b_words * per; ++i) {
      const int row = in_group * per + i % per + i / per * 4 * per;
      uint32_t bits = one.b_bits(static_cast<int>(b[row][group])) << (i % per * one.bits), old;
      std::memcpy(&old, word(lane, a_words + i / per), 4);
      bits |= old;
      std::memcpy(word(lane, a_words + i / per), &bits, 4);
    }
    for (int i = 0; i < 2 * blocks; ++i) {
      const double x = c[group + i / 2 * 8][in_group * 2 + i % 2];
      if (one.halves) {
        const auto bits = static_cast<uint16_t>(half_bits(x));
        std::memcpy(word(lane, a_words + b_words + i / 2) + i % 2 * 2, &bits, 2);
      } else {
        const uint32_t bits = one.is_whole ? static_cast<uint32_t>(x) : std::bit_cast<uint32_t>(static_cast<float>(x));
        std::memcpy(word(lane, a_words + b_words + i), &bits, 4);
      }
    }
  }
  const auto list = [](int first, int count) {
    std::string text = "{";
    for (int at = 0; at < count; ++at) text += (at ? ", %r" : "%r") + std::to_string(first + at);
    return text + "}";
  };
  std::string text =
      ".version 8.4 .target sm_89 .address_size 64 .visible .entry tried(.param .u64 numbers) {"
      ".reg .b32 %r<64>; .reg .b64 %x<3>; ld.param.u64 %x0, [numbers]; mov.u32 %r60, %tid.x;"
      "mad.wide.u32 %x1, %r60, " +
      std::to_string(4 * (words + c_words)) + ", %x0;";
  for (int at = 0; at < words; ++at)
    text += "ld.global.u32 %r" + std::to_string(at) + ", [%x1+" + std::to_string(4 * at) + "];";
  text += "mma.sync.aligned." + one.name + " " + list(words, c_words) + ", " + list(0, a_words) + ", " +
          list(a_words, b_words) + ", " + list(a_words + b_words, c_words) + ";";
  for (int at = 0; at < c_words; ++at)
    text += "st.global.u32 [%x1+" + std::to_string(4 * (words + at)) + "], %r" + std::to_string(words + at) + ";";
  ASSERT_EQ(launch(text + "ret; }", memory), "") << one.name;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 2 * blocks; ++i) {
      const int row = (lane >> 2) + i / 2 * 8, column = (lane & 3) * 2 + i % 2;
      double expected = c[row][column];
      for (int k = 0; k < one.depth; ++k) expected += a[row][k] * b[k][column];
      if (one.halves) {
        uint16_t got;
        std::memcpy(&got, word(lane, words + i / 2) + i % 2 * 2, 2);
        ASSERT_EQ(got, half_bits(expected)) << one.name << " at " << row << ", " << column;
      } else {
        uint32_t got;
        std::memcpy(&got, word(lane, words + i), 4);
        ASSERT_EQ(one.is_whole ? static_cast<int32_t>(got) : f32(got), expected)
            << one.name << " at " << row << ", " << column;
      }
    }
}

TEST(Fragments, ProductsOfFloats) {
  const auto of = [](const Format& format) { return [format](int x) { return nearest(x, format, x < 0, false); }; };
  const auto whole = [](int x) { return std::bit_cast<uint32_t>(static_cast<float>(x)); };
  for (const auto& [name, format] : {std::pair{std::string("f16"), f16}, {"bf16", bf16}}) {
    const std::string types = ".row.col.f32." + name + "." + name + ".f32";
    expect_product({"m16n8k16" + types, 16, 16, 16, of(format), of(format), false});
    expect_product({"m16n8k8" + types, 16, 8, 16, of(format), of(format), false});
  }
  expect_product({"m16n8k16.row.col.f16.f16.f16.f16", 16, 16, 16, of(f16), of(f16), false, true});
  expect_product({"m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 16, of(f16), of(f16), false, true});
  expect_product({"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 32, whole, whole, false});
  expect_product({"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4, 32, whole, whole, false});
  expect_product({"m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 32, 8, of(e4m3), of(e4m3), false});
}

TEST(Fragments, ProductsOfBytes) {
  const auto byte = [](int x) { return static_cast<uint32_t>(x) & 255; };
  for (const auto& [shape, rows, depth] : {std::tuple{"m16n8k32", 16, 32}, {"m16n8k16", 16, 16}, {"m8n8k16", 8, 16}}) {
    const std::string name = shape;
    expect_product({name + ".row.col.s32.u8.s8.s32", rows, depth, 8, byte, byte, true});
    expect_product({name + ".row.col.s32.s8.s8.s32", rows, depth, 8, byte, byte, true});
  }
}

/// 8x8 numbers of 16 bits: lane l gets two of row l / 4, or of column l / 4.
TEST(Fragments, MatricesAreLoadedByRows) {
  for (const bool turned : {false, true}) {
    const std::string fill = "mov.u32 %w20, room; shl.b32 %w21, %t, 4; add.u32 %w22, %w20, %w21; shl.b32 %w0, %t, 3;";
    std::string body = fill;
    for (int at = 0; at < 8; ++at)
      body += "add.u32 %w1, %w0, " + std::to_string(at) + "; st.shared.u16 [%w22+" + std::to_string(2 * at) + "], %w1;";
    body += "bar.sync 0; ldmatrix.sync.aligned.m8n8.x4" + std::string(turned ? ".trans" : "") +
            ".shared.b16 {%w2, %w3, %w4, %w5}, [%w22]; mov.b64 %x0, {%w2, %w5}; mov.b64 %d, %x0;";
    const Numbers got = results_of(body, Numbers(32));
    for (uint64_t lane = 0; lane < 32; ++lane)
      for (const uint64_t matrix : {0, 3})
        for (uint64_t k = 0; k < 2; ++k) {
          const uint64_t row = turned ? lane % 4 * 2 + k : lane / 4, column = turned ? lane / 4 : lane % 4 * 2 + k;
          EXPECT_EQ(got[lane] >> (matrix ? 32 : 0) >> (16 * k) & 0xffff, (matrix * 8 + row) * 8 + column);
        }
  }
}

}  // namespace
}  // namespace tenon::tests
