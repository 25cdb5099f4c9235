// SPDX-License-Identifier: Apache-2.0
#include "ops/expression.h"

#include <algorithm>

#include "ops/expression_list.h"
#include "ops/half.h"

namespace tenon::ops {
namespace {

template <class E>
float apply(float a, [[maybe_unused]] float b, [[maybe_unused]] float alpha, [[maybe_unused]] float beta) {
  if constexpr (E::operands == 2) return E::apply(a, b);
  else return expr::apply<E>(a, alpha, beta);
}

template <class E>
Expression entry(expr::Id id, const char* name, std::string word) {
  std::erase(word, '_');
  return {id, name, word, E::operands, E::parameters, E::is_epilogue, E::is_clamp, E::is_exact, apply<E>};
}

}  // namespace

const std::vector<Expression>& expressions() {
  static const std::vector<Expression> all = {
#define TENON_ENTRY(name, file) entry<expr::name>(expr::Id::name, #name, file),
      TENON_EXPRESSIONS(TENON_ENTRY)
#undef TENON_ENTRY
  };
  return all;
}

const Expression& expression(expr::Id id) { return expressions()[static_cast<size_t>(id)]; }

const Expression* find_expression(std::string_view word) {
  const auto found =
      std::find_if(expressions().begin(), expressions().end(), [&](const Expression& e) { return e.word == word; });
  return found == expressions().end() ? nullptr : &*found;
}

std::optional<Formula> formula_of(const ir::Node& node, const InputNumber& number) {
  const OpDef* op = find(node.op);
  return op && op->formula ? op->formula(node, number) : std::nullopt;
}

std::optional<float> number_of(const Tensor& constant) {
  if (!constant || constant.elements() != 1) return std::nullopt;
  switch (constant.dtype()) {
    case DType::f32: return *constant.data<float>();
    case DType::f16: return f16_value(*constant.data<uint16_t>());
    case DType::bf16: return bf16_value(*constant.data<uint16_t>());
    default: return std::nullopt;
  }
}

}  // namespace tenon::ops
