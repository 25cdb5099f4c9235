// SPDX-License-Identifier: Apache-2.0
// Expressions as a whole: that each has a case, and that vectors give what single numbers give.
#include "ops/expression.h"

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

}  // namespace
}  // namespace tenon::tests
