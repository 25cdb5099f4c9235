// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "backends/kernel.h"
#include "backends/cpu/rows.h"
#include "ops/scalar.h"

namespace tenon::cpu::integers {
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

/// Of two truths, and of two integers of one type.
template <class F>
std::unique_ptr<backends::Step> make_truths(const Problem& problem) {
  return pairs<uint8_t>(problem, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(F()(a != 0, b != 0)); });
}
template <class F>
std::unique_ptr<backends::Step> make_integers(const Problem& problem) {
  return problem.inputs[0].dtype == DType::i64 ? pairs<int64_t>(problem, F()) : pairs<int32_t>(problem, F());
}

struct Both {
  bool operator()(bool a, bool b) const { return a & b; }
};
struct Either {
  bool operator()(bool a, bool b) const { return a | b; }
};
struct One {
  bool operator()(bool a, bool b) const { return a != b; }
};
struct Sum {
  auto operator()(auto a, auto b) const { return scalar::add(a, b); }
};
struct Difference {
  auto operator()(auto a, auto b) const { return scalar::sub(a, b); }
};
struct Multiple {
  auto operator()(auto a, auto b) const { return scalar::mul(a, b); }
};

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

const backends::KernelRegistrar both({"And", "scalar", 1, refuses_bool_pair, make_truths<Both>});
const backends::KernelRegistrar either({"Or", "scalar", 1, refuses_bool_pair, make_truths<Either>});
const backends::KernelRegistrar one({"Xor", "scalar", 1, refuses_bool_pair, make_truths<One>});
const backends::KernelRegistrar sum({"Add", "whole", 0, refuses_whole_pair, make_integers<Sum>});
const backends::KernelRegistrar difference({"Sub", "whole", 0, refuses_whole_pair, make_integers<Difference>});
const backends::KernelRegistrar multiple({"Mul", "whole", 0, refuses_whole_pair, make_integers<Multiple>});

}  // namespace
}  // namespace tenon::cpu::integers
