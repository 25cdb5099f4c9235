// SPDX-License-Identifier: Apache-2.0
// What instructions make of numbers on the emulated GPU, against plain C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>

#include "try.h"

namespace tenon::tests {
namespace {

using Two = std::function<uint64_t(uint64_t, uint64_t)>;
using Three = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }
int32_t s32(uint64_t bits) { return static_cast<int32_t>(bits); }
uint64_t u32(int64_t x) { return static_cast<uint32_t>(x); }

void expect(const std::string& body, const Three& of, bool floats = false) {
  const auto some = floats ? some_floats : some_numbers;
  const Numbers a = some(1, 256), b = some(2, 256), c = some(3, 256), got = results_of(body, a, b, c);
  for (size_t at = 0; at < a.size(); ++at)
    ASSERT_EQ(got[at], of(a[at], b[at], c[at]))
        << body << std::hex << " of " << a[at] << ", " << b[at] << ", " << c[at];
}

/// Numbers that are none are equal.
void expect_floats(const std::string& body, const std::function<float(float, float, float)>& of) {
  const Numbers a = some_floats(1), b = some_floats(2), c = some_floats(3), got = results_of(body, a, b, c);
  for (size_t at = 0; at < a.size(); ++at) {
    const float result = of(f32(a[at]), f32(b[at]), f32(c[at]));
    if (std::isnan(result)) ASSERT_TRUE(std::isnan(f32(got[at]))) << body << " of " << f32(a[at]) << ", " << f32(b[at]);
    else ASSERT_EQ(got[at], bits(result)) << body << " of " << f32(a[at]) << ", " << f32(b[at]) << ", " << f32(c[at]);
  }
}

TEST(Numbers, Integers) {
  expect("add.s32 %wd, %wa, %wb;", [](auto a, auto b, auto) { return u32(s32(a) + int64_t{s32(b)}); });
  expect("sub.s64 %d, %a, %b;", [](auto a, auto b, auto) { return a - b; });
  expect("add.s16 %hd, %ha, %hb;", [](auto a, auto b, auto) { return (a + b) & 0xffff; });
  expect("mul.lo.s32 %wd, %wa, %wb;", [](auto a, auto b, auto) { return u32(int64_t{s32(a)} * s32(b)); });
  expect("mul.hi.s32 %wd, %wa, %wb;", [](auto a, auto b, auto) { return u32(int64_t{s32(a)} * s32(b) >> 32); });
  expect("mul.hi.u32 %wd, %wa, %wb;", [](auto a, auto b, auto) { return (a & 0xffffffff) * (b & 0xffffffff) >> 32; });
  expect("mul.hi.u16 %hd, %ha, %hb;", [](auto a, auto b, auto) { return (a & 0xffff) * (b & 0xffff) >> 16; });
  expect("mul.wide.s32 %d, %wa, -7;", [](auto a, auto, auto) { return static_cast<uint64_t>(int64_t{s32(a)} * -7); });
  expect("mul.wide.u32 %d, %wa, %wb;", [](auto a, auto b, auto) { return (a & 0xffffffff) * (b & 0xffffffff); });
  expect("mad.lo.s32 %wd, %wa, %wb, %wc;", [](auto a, auto b, auto c) { return (a * b + c) & 0xffffffff; });
  expect("mad.wide.s32 %d, %wa, %wb, %c;",
         [](auto a, auto b, auto c) { return static_cast<uint64_t>(int64_t{s32(a)} * s32(b)) + c; });
  expect("min.s32 %wd, %wa, %wb;", [](auto a, auto b, auto) { return u32(std::min(s32(a), s32(b))); });
  expect("max.u64 %d, %a, %b;", [](auto a, auto b, auto) { return std::max(a, b); });
  expect("abs.s32 %wd, %wa;", [](auto a, auto, auto) { return u32(std::abs(int64_t{s32(a)})); });
  expect("neg.s64 %d, %a;", [](auto a, auto, auto) { return -a; });
  expect("sad.u32 %wd, %wa, %wb, %wc;", [](auto a, auto b, auto c) {
    a &= 0xffffffff, b &= 0xffffffff;
    return (c + (a < b ? b - a : a - b)) & 0xffffffff;
  });
}

TEST(Numbers, Quotients) {
  // By 0 all bits are set; the rest is the number. PTX leaves both open, and they must not end the process.
  expect("div.u32 %wd, %wa, %wb;", [](auto a, auto b, auto) { return u32(b) ? u32(a) / u32(b) : 0xffffffff; });
  expect("div.s32 %wd, %wa, %wb;",
         [](auto a, auto b, auto) { return u32(s32(b) ? int64_t{s32(a)} / int64_t{s32(b)} : -1); });
  expect("rem.s32 %wd, %wa, %wb;",
         [](auto a, auto b, auto) { return u32(s32(b) ? int64_t{s32(a)} % int64_t{s32(b)} : s32(a)); });
  EXPECT_EQ(results_of("div.s32 %wd, %wa, %wb;", {0x80000000}, {0xffffffff})[0], 0x80000000);
  EXPECT_EQ(results_of("rem.s32 %wd, %wa, %wb;", {0x80000000}, {0xffffffff})[0], 0u);
  expect("div.u64 %d, %a, %b;", [](auto a, auto b, auto) { return b ? a / b : ~uint64_t{0}; });
  expect("rem.u64 %d, %a, %b;", [](auto a, auto b, auto) { return b ? a % b : a; });
}

TEST(Numbers, Bits) {
  expect("and.b64 %d, %a, %b;", [](auto a, auto b, auto) { return a & b; });
  expect("or.b16 %hd, %ha, %hb;", [](auto a, auto b, auto) { return (a | b) & 0xffff; });
  expect("xor.b32 %wd, %wa, 0xff00;", [](auto a, auto, auto) { return u32(a) ^ 0xff00; });
  expect("not.b32 %wd, %wa;", [](auto a, auto, auto) { return u32(~a); });
  expect("and.b32 %w0, %wb, 63; shl.b32 %wd, %wa, %w0;",
         [](auto a, auto b, auto) { return (b & 63) < 32 ? u32(a << (b & 63)) : 0; });
  expect("and.b32 %w0, %wb, 63; shr.s32 %wd, %wa, %w0;",
         [](auto a, auto b, auto) { return u32(int64_t{s32(a)} >> (b & 63)); });
  expect("and.b32 %w0, %wb, 127; shr.u64 %d, %a, %w0;",
         [](auto a, auto b, auto) { return (b & 127) < 64 ? a >> (b & 127) : 0; });
  expect("popc.b64 %wd, %a;", [](auto a, auto, auto) { return static_cast<uint64_t>(std::popcount(a)); });
  expect("clz.b32 %wd, %wa;", [](auto a, auto, auto) {
    uint64_t count = 0;
    while (count < 32 && !(a >> (31 - count) & 1)) ++count;
    return count;
  });
  expect("bfind.u32 %wd, %wa;", [](auto a, auto, auto) {
    for (uint64_t at = 32; at-- > 0;)
      if (a >> at & 1) return at;
    return uint64_t{0xffffffff};
  });
  expect("brev.b32 %wd, %wa;", [](auto a, auto, auto) {
    uint64_t result = 0;
    for (int at = 0; at < 32; ++at) result |= (a >> at & 1) << (31 - at);
    return result;
  });
  expect("prmt.b32 %wd, %wa, %wb, %wc;", [](auto a, auto b, auto c) {
    uint64_t result = 0;
    for (int at = 0; at < 4; ++at) {
      const auto how = c >> (4 * at) & 15;
      const uint64_t byte = ((how & 4 ? b : a) >> (8 * (how & 3))) & 255;
      result |= (how & 8 ? (byte >> 7 ? 255 : 0) : byte) << (8 * at);
    }
    return result;
  });
  expect("lop3.b32 %wd, %wa, %wb, %wc, 0xe8;", [](auto a, auto b, auto c) { return u32((a & b) | (a & c) | (b & c)); });
  expect("shf.l.wrap.b32 %wd, %wa, %wb, %wc;",
         [](auto a, auto b, auto c) { return u32(((b << 32 | u32(a)) << (c & 31)) >> 32); });
  expect("shf.r.clamp.b32 %wd, %wa, %wb, 40;", [](auto, auto b, auto) { return u32(b); });
  expect("{.reg .b16 l, h; mov.b32 {l, h}, %wa; mov.b32 %wd, {h, l};}",
         [](auto a, auto, auto) { return u32(a << 16 | (a >> 16 & 0xffff)); });
  expect("mov.b64 %d, {%wa, %wb};", [](auto a, auto b, auto) { return u32(a) | u32(b) << 32; });
}

/// By the words of the PTX manual.
TEST(Numbers, FieldsOfBits) {
  const auto extracted = [](uint64_t a, uint64_t b, uint64_t c, bool is_signed) {
    const uint64_t at = b & 255, length = c & 255;
    const bool sign = is_signed && length > 0 && (a >> std::min<uint64_t>(at + length - 1, 31) & 1);
    uint64_t result = 0;
    for (uint64_t k = 0; k < 32; ++k)
      result |= uint64_t{k < length && at + k <= 31 ? (a >> (at + k) & 1) != 0 : sign} << k;
    return result;
  };
  const std::string narrowed = "and.b32 %w0, %wb, 47; and.b32 %w1, %wc, 63; ";
  expect(narrowed + "bfe.u32 %wd, %wa, %w0, %w1;",
         [&](auto a, auto b, auto c) { return extracted(a, b & 47, c & 63, false); });
  expect(narrowed + "bfe.s32 %wd, %wa, %w0, %w1;",
         [&](auto a, auto b, auto c) { return extracted(a, b & 47, c & 63, true); });
  expect(narrowed + "bfi.b32 %wd, %wa, 0x12345678, %w0, %w1;", [](auto a, auto b, auto c) {
    uint64_t result = 0x12345678;
    for (uint64_t k = 0; k < (c & 63) && (b & 47) + k <= 31; ++k)
      result = (result & ~(uint64_t{1} << ((b & 47) + k))) | (a >> k & 1) << ((b & 47) + k);
    return result;
  });
}

TEST(Numbers, DotsOfBytes) {
  expect("dp4a.u32.s32 %wd, %wa, %wb, %wc;", [](auto a, auto b, auto c) {
    int64_t sum = s32(c);
    for (int k = 0; k < 32; k += 8) sum += static_cast<uint8_t>(a >> k) * static_cast<int8_t>(b >> k);
    return u32(sum);
  });
  expect("dp4a.s32.s32 %wd, %wa, %wb, 5;", [](auto a, auto b, auto) {
    int64_t sum = 5;
    for (int k = 0; k < 32; k += 8) sum += static_cast<int8_t>(a >> k) * static_cast<int8_t>(b >> k);
    return u32(sum);
  });
}

TEST(Numbers, Floats) {
  expect_floats("add.f32 %wd, %wa, %wb;", [](float a, float b, float) { return a + b; });
  expect_floats("mul.rn.f32 %wd, %wa, %wb;", [](float a, float b, float) { return a * b; });
  expect_floats("fma.rn.f32 %wd, %wa, %wb, %wc;", [](float a, float b, float c) { return std::fma(a, b, c); });
  expect_floats("div.rn.f32 %wd, %wa, %wb;", [](float a, float b, float) { return a / b; });
  expect_floats("rcp.rn.f32 %wd, %wa;", [](float a, float, float) { return 1 / a; });
  expect_floats("sqrt.rn.f32 %wd, %wa;", [](float a, float, float) { return std::sqrt(a); });
  expect_floats("neg.f32 %wd, %wa;", [](float a, float, float) { return -a; });
  expect_floats("add.f32 %wd, %wa, 0f3F800000;", [](float a, float, float) { return a + 1; });
  expect_floats("mul.ftz.f32 %wd, %wa, %wb;", [](float a, float b, float) {
    const auto flush = [](float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x; };
    return flush(flush(a) * flush(b));
  });
  expect_floats("add.sat.f32 %wd, %wa, %wb;",
                [](float a, float b, float) { return std::isnan(a + b) ? 0 : std::clamp(a + b, 0.f, 1.f); });
}

TEST(Numbers, LeastAndMost) {
  const auto least = [](float a, float b) {
    return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
  };
  expect_floats("min.f32 %wd, %wa, %wb;", [&](float a, float b, float) { return least(a, b); });
  expect_floats("max.f32 %wd, %wa, %wb;", [&](float a, float b, float) { return -least(-a, -b); });
  const Numbers zeros = {0, 0x80000000}, others = {0x80000000, 0};
  EXPECT_EQ(results_of("min.f32 %wd, %wa, %wb;", zeros, others), (Numbers{0x80000000, 0x80000000}));
  EXPECT_EQ(results_of("max.f32 %wd, %wa, %wb;", zeros, others), (Numbers{0, 0}));
  expect_floats("max.NaN.f32 %wd, %wa, %wb;", [&](float a, float b, float) {
    return std::isnan(a + b) && (std::isnan(a) || std::isnan(b)) ? NAN : -least(-a, -b);
  });
}

/// Directed roundings, which the host does, too.
[[gnu::noinline]] float rounded_fma(float a, float b, float c, int rounding) {
  volatile float x = a, y = b, z = c;
  std::fesetround(rounding);
  volatile float result = std::fma(x, y, z);
  std::fesetround(FE_TONEAREST);
  return result;
}

TEST(Numbers, DirectedRoundings) {
  expect_floats("fma.rm.f32 %wd, %wa, %wb, %wc;",
                [](float a, float b, float c) { return rounded_fma(a, b, c, FE_DOWNWARD); });
  expect_floats("fma.rp.f32 %wd, %wa, %wb, %wc;",
                [](float a, float b, float c) { return rounded_fma(a, b, c, FE_UPWARD); });
  expect_floats("add.rz.f32 %wd, %wa, %wb;",
                [](float a, float b, float) { return rounded_fma(a, 1, b, FE_TOWARDZERO); });
}

TEST(Numbers, FunctionsAreClose) {
  using Of = double (*)(double);
  const std::pair<const char*, Of> functions[] = {{"ex2.approx.ftz", [](double x) { return std::exp2(x); }},
                                                  {"lg2.approx", [](double x) { return std::log2(x); }},
                                                  {"rsqrt.approx", [](double x) { return 1 / std::sqrt(x); }},
                                                  {"sin.approx", [](double x) { return std::sin(x); }},
                                                  {"cos.approx", [](double x) { return std::cos(x); }},
                                                  {"tanh.approx", [](double x) { return std::tanh(x); }}};
  Numbers a;
  for (int at = 1; at <= 64; ++at) a.push_back(bits(static_cast<float>(at) / 16));
  for (const auto& [name, of] : functions) {
    const Numbers got = results_of(std::string(name) + ".f32 %wd, %wa;", a);
    for (size_t at = 0; at < a.size(); ++at)
      EXPECT_NEAR(f32(got[at]), of(f32(a[at])), 1e-6 * std::abs(of(f32(a[at]))) + 1e-7) << name;
  }
}

TEST(Numbers, Comparisons) {
  const auto as = [](const std::string& how, const std::string& of) {
    return "setp." + how + " %p0, " + of + "; selp.u32 %wd, 1, 0, %p0;";
  };
  expect(as("lt.s32", "%wa, %wb"), [](auto a, auto b, auto) { return uint64_t{s32(a) < s32(b)}; });
  expect(as("hs.u64", "%a, %b"), [](auto a, auto b, auto) { return uint64_t{a >= b}; });
  expect(as("eq.s16", "%ha, 0"), [](auto a, auto, auto) { return uint64_t{(a & 0xffff) == 0}; });
  expect(
      as("ne.f32", "%wa, %wb"), [](auto a, auto b, auto) { return uint64_t{f32(a) < f32(b) || f32(a) > f32(b)}; },
      true);
  expect(
      as("neu.f32", "%wa, %wb"), [](auto a, auto b, auto) { return uint64_t{!(f32(a) == f32(b))}; }, true);
  expect(
      as("ltu.f32", "%wa, %wb"), [](auto a, auto b, auto) { return uint64_t{!(f32(a) >= f32(b))}; }, true);
  expect(
      as("nan.f32", "%wa, %wa"), [](auto a, auto, auto) { return uint64_t{std::isnan(f32(a))}; }, true);
  expect(
      "setp.lt.s32 %p1, %wb, %wc; setp.lt.and.s32 %p0|%p2, %wa, %wb, !%p1; selp.u32 %w0, 1, 0, %p0;"
      "selp.u32 %w1, 2, 0, %p2; or.b32 %wd, %w0, %w1;",
      [](auto a, auto b, auto c) {
        const bool less = s32(a) < s32(b), third = !(s32(b) < s32(c));
        return uint64_t{less && third} | uint64_t{!less && third} << 1;
      });
  expect(
      "setp.gt.u32 %p1, %wa, %wb; not.pred %p2, %p1; and.pred %p3, %p1, %p2; mov.pred %p4, -1; xor.pred %p5, %p4, %p3;"
      "selp.b32 %wd, %wa, %wb, %p5;",
      [](auto a, auto, auto) { return u32(a); });
}

TEST(Numbers, NumbersOfEveryLaneAreItsOwn) {
  expect(
      "mov.u32 %w0, %laneid; mov.u32 %w1, %warpid; shl.b32 %w1, %w1, 5; add.u32 %w0, %w0, %w1; sub.u32 %wd, %w0, %t;",
      [](auto, auto, auto) { return uint64_t{0}; });
}

}  // namespace
}  // namespace tenon::tests
