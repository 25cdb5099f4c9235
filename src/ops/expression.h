// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/expression_id.h"
#include "ops/expression_math.h"
#include "ops/op.h"

namespace tenon::expr {

template <class E>
constexpr Id id_of = Id{};
#define TENON_ID(name, file) \
  struct name;               \
  template <>                \
  inline constexpr Id id_of<name> = Id::name;
TENON_EXPRESSIONS(TENON_ID)
#undef TENON_ID

}  // namespace tenon::expr

/// The formulas of ops/expressions as values: what elementwise programs and epilogues are made of.
namespace tenon::ops {

struct Expression {
  expr::Id id;
  const char* name;  // "HardSwish": the formula's struct
  std::string word;  // "hardswish": in programs, epilogues and engine files
  int operands;
  expr::Parameters parameters;
  bool is_epilogue, is_clamp, is_exact;
  /// Of one element in f32; `b` only where there are two operands.
  float (*apply)(float a, float b, float alpha, float beta);
};

/// All of them, by id.
const std::vector<Expression>& expressions();
const Expression& expression(expr::Id id);
/// nullptr where no expression has that word.
const Expression* find_expression(std::string_view word);
/// The expression that a node computes of its first inputs; nullopt where it computes none.
std::optional<Formula> formula_of(const ir::Node& node, const InputNumber& number);

/// The number in a tensor of one element of f32, f16 or bf16; nullopt for others.
std::optional<float> number_of(const Tensor& constant);

/// Op::formula of an op that always is one expression, whose parameters are its attributes.
template <class E>
std::optional<Formula> formula(const ir::Node& node, const InputNumber&) {
  Formula formula{expr::id_of<E>};
  if constexpr (E::parameters.count > 0)
    formula.alpha = node.real(E::parameters.list[0].attribute, E::parameters.list[0].otherwise);
  if constexpr (E::parameters.count > 1)
    formula.beta = node.real(E::parameters.list[1].attribute, E::parameters.list[1].otherwise);
  return formula;
}

}  // namespace tenon::ops
