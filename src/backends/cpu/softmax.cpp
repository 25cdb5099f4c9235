// SPDX-License-Identifier: Apache-2.0
#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"

namespace tenon::cpu::softmax {
namespace {

using backends::Operand;
using backends::Problem;
using backends::Reason;

class SoftmaxStep : public backends::Step {
 public:
  explicit SoftmaxStep(const Problem& problem)
      : dims_(problem.inputs[0].dims),
        from_(problem.inputs[0].strides),
        to_(problem.outputs[0].strides),
        rows_(dims_.elements() / dims_.back()),
        dense_(problem.inputs[0].dense() && problem.outputs[0].dense()),
        ops_(row_ops(isa_for(problem))) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    int64_t begin, end;
    worker.share(rows_, begin, end);
    const size_t outer = dims_.rank() - 1;
    const int64_t count = dims_[outer];
    if (dense_)
      return ops_.softmax(reinterpret_cast<float*>(outputs[0]) + begin * count,
                          reinterpret_cast<const float*>(inputs[0]) + begin * count, end - begin, count, count);
    Dims index = dims_;
    int64_t from = 0, to = 0, left = begin;
    for (size_t axis = outer; axis-- > 0; left /= dims_[axis]) {
      index[axis] = left % dims_[axis];
      from += index[axis] * from_[axis], to += index[axis] * to_[axis];
    }
    for (int64_t row = begin; row < end; ++row) {
      ops_.softmax(reinterpret_cast<float*>(outputs[0]) + to, reinterpret_cast<const float*>(inputs[0]) + from, 1,
                   count, count);
      for (size_t axis = outer; axis-- > 0;) {
        from += from_[axis], to += to_[axis];
        if (++index[axis] < dims_[axis]) break;
        from -= dims_[axis] * from_[axis], to -= dims_[axis] * to_[axis];
        index[axis] = 0;
      }
    }
  }

 private:
  Dims dims_, from_, to_;
  int64_t rows_;
  bool dense_;
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  const Operand &x = problem.inputs[0], &y = problem.outputs[0];
  if (x.dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (x.dims.rank() == 0 || x.dims.elements() == 0) return Reason::empty;
  const int64_t rank = static_cast<int64_t>(x.dims.rank()), axis = problem.node->integer("axis", -1);
  if ((axis < 0 ? axis + rank : axis) != rank - 1) return {Reason::attribute, "axis", "the last"};
  const auto is_row = [](const Operand& one) { return one.strides.back() == 1 || one.dims.back() == 1; };
  return is_row(x) && is_row(y) ? Reason() : Reason(Reason::gaps, "rows");
}

std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<SoftmaxStep>(problem); }

const backends::KernelRegistrar registered({"Softmax", "rows", 1, refuses, make});

}  // namespace
}  // namespace tenon::cpu::softmax
