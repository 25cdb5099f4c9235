// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cpu/dense.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/rows.h"
#include "backends/kernel.h"

namespace tenon::cpu::row_dots {
namespace {

using backends::Problem;
using backends::Reason;

/// Matrices times a vector each, or all times one: rows are read once and nothing is packed.
class RowDotsStep : public backends::Step {
 public:
  explicit RowDotsStep(const Problem& problem) : ops_(row_ops(isa_for(problem))) {
    const Dims &a = problem.inputs[0].dims, &b = problem.inputs[1].dims;
    length_ = a.back(), rows_ = a.elements() / length_;
    per_vector_ = rows_ / (b.elements() / length_);
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const float*>(inputs[0]);
    const auto* x = reinterpret_cast<const float*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    int64_t begin, end;
    worker.share(rows_, begin, end);
    while (begin < end) {
      const int64_t vector = begin / per_vector_, next = std::min(end, (vector + 1) * per_vector_);
      ops_.dots(y + begin, a + begin * length_, x + vector * length_, next - begin, length_);
      begin = next;
    }
  }

 private:
  int64_t length_, rows_, per_vector_;
  const RowOps& ops_;
};

Reason refuses(const Problem& problem) {
  if (problem.inputs.size() != 2 || !problem.node->attributes.empty()) return {Reason::form, "plain product"};
  if (!backends::all_of(problem, DType::f32)) return {Reason::element_type, "elements", "f32"};
  const Dims &a = problem.inputs[0].dims, &b = problem.inputs[1].dims;
  if (a.rank() < 2 || b.rank() < 2 || b.back() != 1) return {Reason::shape, "the right operand", "one column"};
  if (a.elements() == 0 || b.elements() == 0) return Reason::empty;
  bool alike = a.rank() == b.rank();
  for (size_t axis = 0; alike && axis + 2 < a.rank(); ++axis) alike = a[axis] == b[axis];
  return alike || b.elements() == a.back() ? Reason() : Reason(Reason::broadcast, "the right operand");
}
std::unique_ptr<backends::Step> make(const Problem& problem) { return std::make_unique<RowDotsStep>(problem); }

const backends::KernelRegistrar registered({"MatMul", "dots", 0, refuses_any<refuses>, make_any<make>});

}  // namespace
}  // namespace tenon::cpu::row_dots
