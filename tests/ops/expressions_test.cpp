// SPDX-License-Identifier: Apache-2.0
// Expressions as a whole: that each has a case, and that vectors give what single numbers give.
#include "ops/expression.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "ops/case.h"
#include "ops/elementwise_program.h"

namespace tenon::tests {
namespace {

using ops::Expression;

TEST(Expressions, EachHasACase) {
  std::set<expr::Id> seen{expr::Id::Identity};  // no op computes it
  for (const Case& one : read_cases(TENON_SOURCE_DIR "/tests/ops")) {
    if (one.node().op == "tenon:Elementwise") {
      const auto& lines = std::get<std::vector<std::string>>(one.node().attributes.at("program"));
      for (const auto& step : ops::parse_program(lines, one.operands.size())) seen.insert(step.id);
    }
    const auto formula = ops::formula_of(one.node(), [&](size_t at) {
      return at < one.operands.size() && one.constant[at] ? ops::number_of(one.operands[at]) : std::nullopt;
    });
    if (formula) seen.insert(formula->id);
  }
  for (const Expression& expression : ops::expressions())
    EXPECT_TRUE(seen.count(expression.id)) << expression.name << " has no line in tests/ops/*.cases";
}

TEST(Expressions, AreFoundByTheirWords) {
  for (const Expression& expression : ops::expressions())
    EXPECT_EQ(ops::find_expression(expression.word), &expression) << expression.word;
  EXPECT_EQ(ops::find_expression("hardswish")->id, expr::Id::HardSwish);
  EXPECT_EQ(ops::find_expression(""), nullptr);
  EXPECT_EQ(ops::find_expression("HardSwish"), nullptr);
}

/// Numbers of all sizes, in odd count.
std::vector<float> numbers() {
  std::vector<float> list;
  for (int at = -1000; at <= 1000; ++at) list.push_back(static_cast<float>(at) * 0.02f);
  for (const float x : {0.f, -0.f, 1e-20f, -1e-20f, 60.f, -60.f, 200.f, -200.f, INFINITY}) list.push_back(x);
  return list;
}

std::string difference(float got, float expected, float x) {
  if (std::isnan(got) && std::isnan(expected)) return "";
  // What cancels errs by a share of x.
  const float allowed = 2e-6f * std::abs(expected) + 2e-7f * (1 + std::abs(x));
  if (got == expected || std::abs(got - expected) <= allowed) return "";
  return "of " + std::to_string(x) + ": " + std::to_string(got) + ", expected " + std::to_string(expected);
}

TEST(Expressions, VectorsGiveWhatNumbersGive) {
  const std::vector<float> x = numbers();
  std::vector<float> y(x.size());
  const auto count = static_cast<int64_t>(x.size());
  constexpr float alpha = 0.3f, beta = 0.6f, other = 1.5f;
  for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::fused, cpu::Isa::avx2, cpu::Isa::avx512}) {
    if (isa > cpu::detect_isa()) continue;
    const cpu::RowOps& rows = cpu::row_ops(isa);
    for (const Expression& expression : ops::expressions()) {
      if (expression.operands == 2) rows.binary(expression.id, y.data(), x.data(), 1, &other, 0, count);
      else rows.unary(expression.id, alpha, beta, y.data(), x.data(), count);
      for (size_t at = 0; at < x.size(); ++at)
        ASSERT_EQ(difference(y[at], expression.apply(x[at], other, alpha, beta), x[at]), "")
            << expression.name << " on " << cpu::isa_name(isa);
    }
  }
}

/// What a type of floats ends in, what overflows and what vanishes in exp, and ordinary numbers; a prime count, so that
/// each comes to every lane and to the tail as it is moved along.
const std::vector<float> edges{0.f,        -0.f,          0x1p-126f,      -0x1p-126f, 0x1p-149f, -0x1p-149f, 1e-40f,
                               -1e-40f,    3.4028235e38f, -3.4028235e38f, INFINITY,   -INFINITY, NAN,        1.f,
                               -1.f,       0.5f,          -2.5f,          88.72f,     88.73f,    -87.3f,     -87.4f,
                               89.f,       100.f,         -100.f,         -103.9f,    -104.1f,   -200.f,     1e-20f,
                               16777217.f, 1e30f,         -1e30f};

std::string edge_difference(const Expression& expression, float got, float expected, float x) {
  if (std::isnan(got) && std::isnan(expected)) return "";
  // Exact on every device: of the same sign, too, where both are zero.
  static const std::set<expr::Id> exact{expr::Id::Neg,  expr::Id::Abs,  expr::Id::Mul,
                                        expr::Id::Sub,  expr::Id::Sqrt, expr::Id::Floor,
                                        expr::Id::Ceil, expr::Id::Relu, expr::Id::Reciprocal};
  const bool alike = got != 0 || std::signbit(got) == std::signbit(expected) || !exact.count(expression.id);
  const float error = std::abs(got - expected), steps = 4 * 0x1p-149f;
  // Forms that cancel err by a share of what they are made of.
  const float part = std::isfinite(x) ? 2e-7f * std::min(1.f, std::abs(x)) : 0;
  if (got == expected && alike) return "";
  if (!exact.count(expression.id) && std::isfinite(expected) && error <= 2e-6f * std::abs(expected) + part + steps)
    return "";
  return fmt::format("{} of {:a} ({}) is {}, expected {}", expression.name, x, x, got, expected);
}

TEST(Expressions, VectorsGiveWhatNumbersGiveAtTheEdges) {
  const size_t count = edges.size();
  std::vector<float> x(count), y(count), partner(count);
  for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::fused, cpu::Isa::avx2, cpu::Isa::avx512}) {
    if (isa > cpu::detect_isa()) continue;
    const cpu::RowOps& rows = cpu::row_ops(isa);
    for (const Expression& expression : ops::expressions()) {
      if (expression.id == expr::Id::Quant || expression.id == expr::Id::Dequant) continue;  // of bytes
      SCOPED_TRACE(cpu::isa_name(isa));
      for (size_t moved = 0; moved < count; ++moved) {
        for (size_t at = 0; at < count; ++at) {
          x[at] = edges[(at + moved) % count];
          partner[at] = edges[at];
        }
        constexpr float alpha = 0.3f, beta = 0.6f;
        const auto n = static_cast<int64_t>(count);
        if (expression.operands == 2) rows.binary(expression.id, y.data(), x.data(), 1, partner.data(), 1, n);
        else rows.unary(expression.id, alpha, beta, y.data(), x.data(), n);
        for (size_t at = 0; at < count; ++at)
          EXPECT_EQ(edge_difference(expression, y[at], expression.apply(x[at], partner[at], alpha, beta), x[at]), "");
      }
    }
  }
}

TEST(Expressions, ExpIsRightFromEndToEnd) {
  std::vector<float> x, y;
  for (float at = -110; at < 95; at += 0.00317f) x.push_back(at);
  y.resize(x.size());
  for (const cpu::Isa isa : {cpu::Isa::portable, cpu::Isa::fused, cpu::Isa::avx2, cpu::Isa::avx512}) {
    if (isa > cpu::detect_isa()) continue;
    cpu::row_ops(isa).unary(expr::Id::Exp, 0, 0, y.data(), x.data(), static_cast<int64_t>(x.size()));
    for (size_t at = 0; at < x.size(); ++at) {
      const double right = std::exp(static_cast<double>(x[at])), got = y[at];
      if (right > 3.4028235677973366e38) ASSERT_EQ(y[at], INFINITY) << x[at];
      else ASSERT_LE(std::abs(got - right), 2e-7 * right + 0x1p-149) << x[at] << " on " << cpu::isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace tenon::tests
