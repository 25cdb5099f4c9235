// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/kernels/f32/affine_rows.h"

#include <algorithm>
#include <optional>

#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/kernel.h"
#include "ops/elementwise_program.h"

namespace tenon::cpu::affine {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;
using ops::Instruction;

/// A program that multiplies by one input and adds another, then may apply an expression of one operand.
struct Form {
  size_t x, scale, shift;
  std::optional<Instruction> ending;
};

std::optional<Form> form_of(const Problem& problem) {
  const auto program = ops::program_of(*problem.node);
  const size_t inputs = problem.inputs.size();
  if (!program || inputs != 3 || program->size() < 2 || program->size() > 3) return std::nullopt;
  const Instruction &product = (*program)[0], &sum = (*program)[1];
  const auto input = [&](const Instruction::Operand& from) { return from.reg >= 0 && from.reg < 3; };
  if (product.id != expr::Id::Mul || sum.id != expr::Id::Add || !input(product.a) || !input(product.b))
    return std::nullopt;
  const Instruction::Operand& shift = sum.a.reg == 3 ? sum.b : sum.a;
  if ((sum.a.reg != 3 && sum.b.reg != 3) || !input(shift)) return std::nullopt;
  Form form{static_cast<size_t>(product.a.reg), static_cast<size_t>(product.b.reg), static_cast<size_t>(shift.reg), {}};
  if (form.x == form.scale || form.x == form.shift || form.scale == form.shift) return std::nullopt;
  if (!(problem.inputs[form.x].dims == problem.outputs[0].dims)) std::swap(form.x, form.scale);
  if (program->size() < 3) return form;
  form.ending = (*program)[2];
  const bool ends = !ops::is_binary(*form.ending) && form.ending->a.reg == 4 && form.ending->id != expr::Id::Quant;
  return ends ? std::optional(form) : std::nullopt;
}

/// Whether an operand has an element for each of the last axis alone.
bool is_row(const Operand& operand, int64_t columns) {
  return operand.dims.rank() > 0 && operand.dims.back() == columns && operand.dims.elements() == columns &&
         operand.rows_contiguous();
}

/// Scale and shift of channels that lie last, as batch normalisation leaves them, and an activation behind it.
class AffineStep : public backends::Step {
 public:
  explicit AffineStep(const Problem& problem)
      : form_(*form_of(problem)), kernel_(affine_rows(isa_for(problem))), ops_(row_ops(isa_for(problem))) {
    const Operand &x = problem.inputs[form_.x], &y = problem.outputs[0];
    dims_ = y.dims, xs_ = x.strides, ys_ = y.strides;
  }

  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const size_t last = dims_.rank() - 1;
    const int64_t columns = dims_[last], rows = last > 0 ? dims_[last - 1] : 1;
    const int64_t most = form_.ending && !relu() ? std::max<int64_t>(1, at_once / columns) : rows;
    int64_t begin, end;
    worker.share(dims_.elements() / columns, begin, end);
    for (int64_t count; begin < end; begin += count) {
      count = std::min({end - begin, rows - begin % rows, most});
      AffineRows all{reinterpret_cast<float*>(outputs[0]) + offset(ys_, begin),
                     reinterpret_cast<const float*>(inputs[form_.x]) + offset(xs_, begin),
                     reinterpret_cast<const float*>(inputs[form_.scale]),
                     reinterpret_cast<const float*>(inputs[form_.shift]),
                     last > 0 ? ys_[last - 1] : 0,
                     last > 0 ? xs_[last - 1] : 0,
                     count,
                     columns,
                     relu()};
      kernel_(all);
      if (form_.ending && !relu()) end_rows(all);
    }
  }

 private:
  static constexpr int64_t at_once = 4096;  // elements whose ending finds them in L1

  bool relu() const { return form_.ending && form_.ending->id == expr::Id::Relu; }
  int64_t offset(const Dims& strides, int64_t row) const {
    int64_t at = 0;
    for (size_t axis = dims_.rank() - 1; axis-- > 0; row /= dims_[axis]) at += row % dims_[axis] * strides[axis];
    return at;
  }
  void end_rows(const AffineRows& all) const {
    const Instruction& step = *form_.ending;
    const bool dense = all.dst_pitch == all.columns;
    const int64_t rows = dense ? 1 : all.rows, count = dense ? all.rows * all.columns : all.columns;
    for (int64_t row = 0; row < rows; ++row) {
      float* const to = all.dst + row * all.dst_pitch;
      ops_.unary(step.id, step.alpha, step.beta, to, to, count);
    }
  }

  Form form_;
  Dims dims_, xs_, ys_;
  AffineRowsKernel kernel_;
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  const Operand& y = problem.outputs[0];
  if (!backends::all_of(problem, DType::f32)) return {Reason::element_type, "elements", "f32"};
  const auto form = form_of(problem);
  if (!form) return {Reason::form, "scale and shift"};
  if (y.dims.elements() == 0) return Reason::empty;
  const Operand& x = problem.inputs[form->x];
  if (!(x.dims == y.dims) || y.dims.rank() == 0 || !x.rows_contiguous() || !y.rows_contiguous())
    return {Reason::not_contiguous, "rows"};
  if (!is_row(problem.inputs[form->scale], y.dims.back()) || !is_row(problem.inputs[form->shift], y.dims.back()))
    return {Reason::shape, "scale and shift", "an element for each of the last axis"};
  return {};
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<AffineStep>(problem); }

const backends::KernelRegistrar registered({"tenon:Elementwise", "affine", 3, refuses, make});

}  // namespace
}  // namespace tenon::cpu::affine
