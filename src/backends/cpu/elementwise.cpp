// SPDX-License-Identifier: Apache-2.0
#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/cpu/rows.h"
#include "ops/expression.h"

namespace tenon::cpu::elementwise {
namespace {

using backends::Problem;
using backends::Reason;

std::optional<ops::Formula> formula_of(const Problem& problem) {
  return ops::formula_of(*problem.node, [&](size_t at) {
    return at < problem.inputs.size() ? ops::number_of(problem.inputs[at].constant) : std::nullopt;
  });
}
bool is_binary(const ops::Formula& formula) { return ops::expression(formula.id).operands == 2; }

class BinaryStep : public backends::Step {
 public:
  BinaryStep(const Problem& problem, expr::Id f) : rows_(problem, 2), f_(f), ops_(row_ops(isa_for(problem))) {}
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    const Rows rows(problem, 2);
    if (!rows.contiguous()) return nullptr;
    auto other = std::make_unique<BinaryStep>(*this);
    other->rows_ = rows;
    return other;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const float*>(inputs[0]);
    const auto* b = reinterpret_cast<const float*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    if (rows_.is_short())
      return rows_.each_beside(worker, [&](const int64_t* at, int64_t lines) {
        float left[Rows::most_beside], right[Rows::most_beside];
        ops_.binary(f_, y + at[2], rows_.beside(0, a + at[0], lines, left), 1, rows_.beside(1, b + at[1], lines, right),
                    1, lines * rows_.row_length());
      });
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      ops_.binary(f_, y + at[2], a + at[0], rows_.step(0), b + at[1], rows_.step(1), count);
    });
  }

 private:
  Rows rows_;
  expr::Id f_;
  const RowOps& ops_;
};

class UnaryStep : public backends::Step {
 public:
  UnaryStep(const Problem& problem, const ops::Formula& f)
      : rows_(problem, 1), f_(f), ops_(row_ops(isa_for(problem))) {}
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    const Rows rows(problem, 1);
    if (!rows.contiguous()) return nullptr;
    auto other = std::make_unique<UnaryStep>(*this);
    other->rows_ = rows;
    return other;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    if (rows_.is_short())
      return rows_.each_beside(worker, [&](const int64_t* at, int64_t lines) {
        float beside[Rows::most_beside];
        ops_.unary(f_.id, f_.alpha, f_.beta, y + at[1], rows_.beside(0, x + at[0], lines, beside),
                   lines * rows_.row_length());
      });
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      ops_.unary(f_.id, f_.alpha, f_.beta, y + at[1], x + at[0], count);
    });
  }

 private:
  Rows rows_;
  ops::Formula f_;
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  const auto formula = formula_of(problem);
  if (!formula) return {Reason::form, "expression of its first operands alone"};
  const size_t operands = is_binary(*formula) ? 2 : 1;
  for (size_t at = 0; at < operands; ++at)
    if (problem.inputs[at].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  return Rows(problem, operands).contiguous() ? Reason() : Reason(Reason::not_contiguous, "rows");
}

std::unique_ptr<backends::Step> make(const Problem& problem) {
  const ops::Formula formula = *formula_of(problem);
  if (is_binary(formula)) return std::make_unique<BinaryStep>(problem, formula.id);
  return std::make_unique<UnaryStep>(problem, formula);
}

const backends::KernelRegistrar registered({backends::any_expression, "rows", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::elementwise
