#include <cmath>
#include <string>

#include "backends/kernel.h"
#include "backends/cpu/rows.h"
#include "ops/scalar.h"

namespace tenon::cpu {
namespace {

using backends::Operand;
using backends::Problem;
namespace scalar = ops::scalar;

/// The parameters of a function, by the defaults of its op.
struct Parameters {
  float a = 0, b = 0;
};
struct Function {
  const char* op;
  float (*value)(float x, const Parameters& p);
  const char* names[2];
  Parameters defaults;
};
float sign(float x) { return x != x ? x : static_cast<float>((x > 0) - (x < 0)); }
constexpr Function functions[] = {
    {"Log", [](float x, const Parameters&) { return std::log(x); }, {}, {}},
    {"Floor", [](float x, const Parameters&) { return std::floor(x); }, {}, {}},
    {"Ceil", [](float x, const Parameters&) { return std::ceil(x); }, {}, {}},
    {"Round", [](float x, const Parameters&) { return std::nearbyint(x); }, {}, {}},
    {"Sin", [](float x, const Parameters&) { return std::sin(x); }, {}, {}},
    {"Cos", [](float x, const Parameters&) { return std::cos(x); }, {}, {}},
    {"Sign", [](float x, const Parameters&) { return sign(x); }, {}, {}},
    {"Softplus", [](float x, const Parameters&) { return scalar::softplus(x); }, {}, {}},
    {"Softsign", [](float x, const Parameters&) { return scalar::softsign(x); }, {}, {}},
    {"Selu",
     [](float x, const Parameters& p) { return scalar::selu(x, p.a, p.b); },
     {"alpha", "gamma"},
     {1.67326319f, 1.05070102f}},
    {"Celu", [](float x, const Parameters& p) { return scalar::celu(x, p.a); }, {"alpha"}, {1, 0}},
    {"ThresholdedRelu",
     [](float x, const Parameters& p) { return scalar::thresholded_relu(x, p.a); },
     {"alpha"},
     {1, 0}},
};

/// Functions without a vector form: scalar loops, shared by the workers.
class FunctionStep : public backends::Step {
 public:
  FunctionStep(const Problem& problem, const Function& function)
      : rows_(problem, 1), value_(function.value), parameters_(function.defaults) {
    if (function.names[0]) parameters_.a = problem.node->real(function.names[0], parameters_.a);
    if (function.names[1]) parameters_.b = problem.node->real(function.names[1], parameters_.b);
  }
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) y[at[1] + i] = value_(x[at[0] + i], parameters_);
    });
  }

 private:
  Rows rows_;
  float (*value_)(float, const Parameters&);
  Parameters parameters_;
};

float power(float x, float y) {
  if (y == 2) return x * x;
  if (y == 0.5f && x >= 0) return std::sqrt(x);
  return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
}

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
  if (op == "Pow") return pairs<float>(problem, power);
  if (op == "PRelu") return pairs<float>(problem, [](float x, float slope) { return x < 0 ? slope * x : x; });
  if (op == "And")
    return pairs<uint8_t>(problem, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) & (b != 0)); });
  if (op == "Or")
    return pairs<uint8_t>(problem, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) | (b != 0)); });
  if (op == "Xor")
    return pairs<uint8_t>(problem, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) != (b != 0)); });
  return problem.inputs[0].dtype == DType::i64 ? whole_numbers<int64_t>(problem) : whole_numbers<int32_t>(problem);
}

const char* refuses_rows(const Problem& problem, size_t operands) {
  if (problem.outputs[0].dims.elements() == 0) return "nothing to do";
  return Rows(problem, operands).contiguous() ? nullptr : "rows are not contiguous";
}
const char* refuses_function(const Problem& problem) {
  return problem.inputs[0].dtype != DType::f32 ? "only f32" : refuses_rows(problem, 1);
}
const char* refuses_real_pair(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::f32 || problem.inputs[1].dtype != DType::f32) return "only f32";
  return refuses_rows(problem, 2);
}
const char* refuses_bool_pair(const Problem& problem) { return refuses_rows(problem, 2); }
const char* refuses_whole_pair(const Problem& problem) {
  if (problem.inputs[0].dtype != DType::i64 && problem.inputs[0].dtype != DType::i32) return "only i32 and i64";
  return refuses_rows(problem, 2);
}
std::unique_ptr<backends::Step> make_function(const Problem& problem) {
  for (const Function& function : functions)
    if (problem.node->op == function.op) return std::make_unique<FunctionStep>(problem, function);
  return nullptr;
}

struct Register {
  Register() {
    for (const Function& function : functions)
      backends::KernelRegistrar({function.op, "scalar", 1, refuses_function, make_function});
    for (const char* op : {"Pow", "PRelu"}) backends::KernelRegistrar({op, "scalar", 1, refuses_real_pair, make_pairs});
    for (const char* op : {"And", "Or", "Xor"})
      backends::KernelRegistrar({op, "scalar", 1, refuses_bool_pair, make_pairs});
    for (const char* op : {"Add", "Sub", "Mul"})
      backends::KernelRegistrar({op, "whole", 0, refuses_whole_pair, make_pairs});
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cpu
