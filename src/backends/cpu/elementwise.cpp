// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

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

/// Calls f(results, operands, how far one element of each lies from the next, count) for a worker's share. Short lines
/// and what does not lie side by side are copied on the way.
template <size_t kOperands, class F>
void each_row(const Rows& rows, const std::array<const float*, kOperands>& in, float* out, const Worker& worker,
              const F& f) {
  std::array<const float*, kOperands> from;
  std::array<int, kOperands> steps;
  steps.fill(1);
  float room[kOperands + 1][Rows::most_beside];
  float* const made = room[kOperands];
  if (rows.has_short_lines()) {
    const bool apart = !rows.is_beside();
    return rows.each_beside(worker, [&](const int64_t* at, int64_t lines) {
      for (size_t k = 0; k < kOperands; ++k) from[k] = rows.beside(k, in[k] + at[k], lines, room[k]);
      f(apart ? made : out + at[kOperands], from, steps, lines * rows.row_length());
      if (apart) rows.store_apart(made, lines, out + at[kOperands]);
    });
  }
  if (!rows.contiguous()) {
    int64_t begin, end;
    worker.share(rows.elements(), begin, end);
    for (int64_t at = begin; at < end; at += Rows::most_beside) {
      const int64_t count = std::min(Rows::most_beside, end - at);
      for (size_t k = 0; k < kOperands; ++k) rows.gather(k, in[k], at, count, room[k]), from[k] = room[k];
      f(made, from, steps, count);
      rows.scatter(made, at, count, out);
    }
    return;
  }
  for (size_t k = 0; k < kOperands; ++k) steps[k] = rows.step(k);
  rows.each(worker, [&](const int64_t* at, int64_t count) {
    for (size_t k = 0; k < kOperands; ++k) from[k] = in[k] + at[k];
    f(out + at[kOperands], from, steps, count);
  });
}

class BinaryStep : public backends::Step {
 public:
  BinaryStep(const Problem& problem, expr::Id f) : rows_(problem, 2), f_(f), ops_(row_ops(isa_for(problem))) {}
  std::unique_ptr<Step> resized(const Problem& problem) const override {
    auto other = std::make_unique<BinaryStep>(*this);
    other->rows_ = Rows(problem, 2);
    return other;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    each_row<2>(rows_, {reinterpret_cast<const float*>(inputs[0]), reinterpret_cast<const float*>(inputs[1])},
                reinterpret_cast<float*>(outputs[0]), worker,
                [&](float* to, const auto& from, const auto& steps, int64_t count) {
                  ops_.binary(f_, to, from[0], steps[0], from[1], steps[1], count);
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
    auto other = std::make_unique<UnaryStep>(*this);
    other->rows_ = Rows(problem, 1);
    return other;
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    each_row<1>(rows_, {reinterpret_cast<const float*>(inputs[0])}, reinterpret_cast<float*>(outputs[0]), worker,
                [&](float* to, const auto& from, const auto&, int64_t count) {
                  ops_.unary(f_.id, f_.alpha, f_.beta, to, from[0], count);
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
  return problem.outputs[0].dims.elements() == 0 ? Reason(Reason::empty) : Reason();
}

std::unique_ptr<backends::Step> make(const Problem& problem) {
  const ops::Formula formula = *formula_of(problem);
  if (is_binary(formula)) return std::make_unique<BinaryStep>(problem, formula.id);
  return std::make_unique<UnaryStep>(problem, formula);
}

const backends::KernelRegistrar registered({backends::any_expression, "rows", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::elementwise
