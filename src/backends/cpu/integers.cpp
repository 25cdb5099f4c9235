// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "backends/kernel.h"
#include "backends/cpu/rows.h"
#include "ops/scalar.h"

namespace tenon::cpu {
namespace {

using backends::Problem;
using backends::Reason;
namespace scalar = ops::scalar;

/// dst[i] = f(a[i], b[i]) over broadcast rows of T.
template <class T, class F>
class PairStep : public backends::Step {
 public:
  PairStep(const Problem& problem, F f) : rows_(problem, 2), f_(f) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const T*>(inputs[0]);
    const auto* b = reinterpret_cast<const T*>(inputs[1]);
    auto* y = reinterpret_cast<T*>(outputs[0]);
    const int64_t a_step = rows_.step(0), b_step = rows_.step(1);
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) y[at[2] + i] = f_(a[at[0] + i * a_step], b[at[1] + i * b_step]);
    });
  }

 private:
  Rows rows_;
  F f_;
};
template <class T, class F>
std::unique_ptr<backends::Step> pairs(const Problem& problem, F f) {
  return std::make_unique<PairStep<T, F>>(problem, f);
}

template <class T>
std::unique_ptr<backends::Step> whole_numbers(const Problem& problem) {
  const std::string& op = problem.node->op;
  if (op == "Add") return pairs<T>(problem, [](T a, T b) { return scalar::add(a, b); });
  if (op == "Sub") return pairs<T>(problem, [](T a, T b) { return scalar::sub(a, b); });
  return pairs<T>(problem, [](T a, T b) { return scalar::mul(a, b); });
}

std::unique_ptr<backends::Step> make_pairs(const Problem& problem) {
  const std::string& op = problem.node->op;
  if (op == "And")
    return pairs<uint8_t>(problem, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) & (b != 0)); });
  if (op == "Or")
    return pairs<uint8_t>(problem, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) | (b != 0)); });
  if (op == "Xor")
    return pairs<uint8_t>(problem, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) != (b != 0)); });
  return problem.inputs[0].dtype == DType::i64 ? whole_numbers<int64_t>(problem) : whole_numbers<int32_t>(problem);
}

Reason refuses_rows(const Problem& problem, size_t operands) {
  if (problem.outputs[0].dims.elements() == 0) return Reason::empty;
  return Rows(problem, operands).contiguous() ? Reason() : Reason(Reason::not_contiguous, "rows");
}
Reason refuses_bool_pair(const Problem& problem) { return refuses_rows(problem, 2); }
Reason refuses_whole_pair(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::i64 && problem.inputs[0].dtype != DType::i32)
    return {Reason::element_type, "elements", "i32 or i64"};
  return refuses_rows(problem, 2);
}
struct Register {
  Register() {
    for (const char* op : {"And", "Or", "Xor"})
      backends::KernelRegistrar({op, "scalar", 1, refuses_bool_pair, make_pairs});
    for (const char* op : {"Add", "Sub", "Mul"})
      backends::KernelRegistrar({op, "whole", 0, refuses_whole_pair, make_pairs});
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cpu
