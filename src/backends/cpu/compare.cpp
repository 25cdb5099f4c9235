// SPDX-License-Identifier: Apache-2.0
#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/f32/loops.h"
#include "backends/cpu/rows.h"

namespace tenon::cpu::compare {
namespace {

using backends::Problem;
using backends::Reason;

class CompareStep : public backends::Step {
 public:
  CompareStep(const Problem& problem, Compare op) : rows_(problem, 2), op_(op), loops_(loops(active_isa())) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const float*>(inputs[0]);
    const auto* b = reinterpret_cast<const float*>(inputs[1]);
    auto* y = reinterpret_cast<uint8_t*>(outputs[0]);
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      loops_.compare(op_, y + at[2], a + at[0], rows_.step(0), b + at[1], rows_.step(1), count);
    });
  }

 private:
  Rows rows_;
  Compare op_;
  const Loops& loops_;
};

class SelectStep : public backends::Step {
 public:
  explicit SelectStep(const Problem& problem) : rows_(problem, 3), loops_(loops(active_isa())) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* choice = reinterpret_cast<const uint8_t*>(inputs[0]);
    const auto* a = reinterpret_cast<const uint32_t*>(inputs[1]);
    const auto* b = reinterpret_cast<const uint32_t*>(inputs[2]);
    auto* y = reinterpret_cast<uint32_t*>(outputs[0]);
    const int steps[] = {rows_.step(0), rows_.step(1), rows_.step(2)};
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      loops_.select(y + at[3], choice + at[0], a + at[1], b + at[2], steps, count);
    });
  }

 private:
  Rows rows_;
  const Loops& loops_;
};

Reason refuses_compare(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32) return {Reason::element_type, "elements", "f32"};
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  return Rows(problem, 2).contiguous() ? Reason() : Reason(Reason::not_contiguous, "rows");
}
template <Compare op>
std::unique_ptr<backends::Step> make_compare(const Problem& problem) {
  return std::make_unique<CompareStep>(problem, op);
}
Reason refuses_select(const Problem& problem) {
  if (size_of(problem.inputs[1].dtype) != 4) return {Reason::element_type, "elements", "4 bytes"};
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  return Rows(problem, 3).contiguous() ? Reason() : Reason(Reason::not_contiguous, "rows");
}
std::unique_ptr<backends::Step> make_select(const Problem& problem) { return std::make_unique<SelectStep>(problem); }

using backends::KernelRegistrar;
const KernelRegistrar less({"Less", "loops", 1, refuses_compare, make_compare<Compare::less>});
const KernelRegistrar less_equal({"LessOrEqual", "loops", 1, refuses_compare, make_compare<Compare::less_equal>});
const KernelRegistrar greater({"Greater", "loops", 1, refuses_compare, make_compare<Compare::greater>});
const KernelRegistrar greater_equal({"GreaterOrEqual", "loops", 1, refuses_compare,
                                     make_compare<Compare::greater_equal>});
const KernelRegistrar equal({"Equal", "loops", 1, refuses_compare, make_compare<Compare::equal>});
const KernelRegistrar where({"Where", "loops", 1, refuses_select, make_select});

}  // namespace
}  // namespace tenon::cpu::compare
