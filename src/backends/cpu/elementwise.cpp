#include <string>

#include "backends/kernel.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/kernels/rows.h"
#include "backends/cpu/rows.h"

namespace tenon::cpu {
namespace {

using backends::Operand;
using backends::Problem;

struct NamedBinary {
  const char* op;
  Binary binary;
};
constexpr NamedBinary binaries[] = {{"Add", Binary::add}, {"Sub", Binary::sub}, {"Mul", Binary::mul},
                                    {"Div", Binary::div}, {"Max", Binary::max}, {"Min", Binary::min}};

class BinaryStep : public backends::Step {
 public:
  BinaryStep(const Problem& problem, Binary op) : rows_(problem, 2), op_(op), ops_(row_ops(isa_for(problem))) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* a = reinterpret_cast<const float*>(inputs[0]);
    const auto* b = reinterpret_cast<const float*>(inputs[1]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    rows_.each(worker, [&](const int64_t* at, int64_t count) {
      ops_.binary(op_, y + at[2], a + at[0], rows_.step(0), b + at[1], rows_.step(1), count);
    });
  }

 private:
  Rows rows_;
  Binary op_;
  const RowOps& ops_;
};

class UnaryStep : public backends::Step {
 public:
  UnaryStep(const Problem& problem, Unary op, const Epilogue& activation)
      : rows_(problem, 1), op_(op), activation_(activation), ops_(row_ops(isa_for(problem))) {}
  void run(std::byte* const* inputs, std::byte* const* outputs, const Worker& worker) const override {
    const auto* x = reinterpret_cast<const float*>(inputs[0]);
    auto* y = reinterpret_cast<float*>(outputs[0]);
    rows_.each(worker,
               [&](const int64_t* at, int64_t count) { ops_.unary(op_, activation_, y + at[1], x + at[0], count); });
  }

 private:
  Rows rows_;
  Unary op_;
  Epilogue activation_;
  const RowOps& ops_;
};

const char* refuses_rows(const Problem& problem, size_t operands) {
  if (problem.inputs.size() < operands) return "too few operands";
  for (size_t at = 0; at < operands; ++at)
    if (problem.inputs[at].dtype != DType::f32) return "only f32";
  if (problem.outputs[0].dims.elements() == 0) return "nothing to do";
  return Rows(problem, operands).contiguous() ? nullptr : "rows are not contiguous";
}

const char* refuses_binary(const Problem& problem) {
  return problem.inputs.size() != 2 ? "only two operands" : refuses_rows(problem, 2);
}

std::unique_ptr<backends::Step> make_binary(const Problem& problem) {
  for (const NamedBinary& entry : binaries)
    if (problem.node->op == entry.op) return std::make_unique<BinaryStep>(problem, entry.binary);
  return nullptr;
}

/// The unary loop of a node and its parameters; false where there is none.
bool unary_of(const Problem& problem, Unary& op, Epilogue& epilogue) {
  const ir::Node& node = *problem.node;
  static constexpr std::pair<const char*, Unary> plain[] = {{"Neg", Unary::neg},
                                                            {"Abs", Unary::abs},
                                                            {"Exp", Unary::exp},
                                                            {"Sqrt", Unary::sqrt},
                                                            {"Reciprocal", Unary::reciprocal},
                                                            {"Erf", Unary::erf}};
  for (const auto& [name, unary] : plain)
    if (node.op == name) {
      op = unary;
      return true;
    }
  static constexpr std::pair<const char*, Activation> activations[] = {
      {"Relu", Activation::relu},       {"Sigmoid", Activation::sigmoid},
      {"tenon:Silu", Activation::silu}, {"HardSwish", Activation::hard_swish},
      {"Tanh", Activation::tanh},       {"Mish", Activation::mish}};
  op = Unary::activation;
  for (const auto& [name, activation] : activations)
    if (node.op == name) {
      epilogue.act = activation;
      return true;
    }
  if (node.op == "LeakyRelu") return epilogue = {Activation::leaky_relu, node.real("alpha", 0.01f)}, true;
  if (node.op == "HardSigmoid")
    return epilogue = {Activation::hard_sigmoid, node.real("alpha", 0.2f), node.real("beta", 0.5f)}, true;
  if (node.op == "Elu") return epilogue = {Activation::elu, node.real("alpha", 1.f)}, true;
  if (node.op == "Gelu")
    return epilogue = {node.text("approximate", "none") == "tanh" ? Activation::gelu_tanh : Activation::gelu}, true;
  if (node.op == "Clip") {
    epilogue = {Activation::clip, -3.402823466e38f, 3.402823466e38f};
    for (size_t at : {size_t{1}, size_t{2}})
      if (problem.inputs.size() > at && problem.inputs[at]) {
        if (!problem.inputs[at].constant || problem.inputs[at].constant.elements() != 1) return false;
        (at == 1 ? epilogue.alpha : epilogue.beta) = *problem.inputs[at].constant.data<float>();
      }
    return true;
  }
  return false;
}

const char* refuses_unary(const Problem& problem) {
  if (const char* reason = refuses_rows(problem, 1)) return reason;
  Unary op;
  Epilogue epilogue;
  return unary_of(problem, op, epilogue) ? nullptr : "its bounds are not constant";
}

std::unique_ptr<backends::Step> make_unary(const Problem& problem) {
  Unary op;
  Epilogue epilogue;
  unary_of(problem, op, epilogue);
  return std::make_unique<UnaryStep>(problem, op, epilogue);
}

struct Register {
  Register() {
    for (const NamedBinary& entry : binaries)
      backends::KernelRegistrar({entry.op, "rows", 1, refuses_binary, make_binary});
    for (const char* op : {"Neg", "Abs", "Exp", "Sqrt", "Reciprocal", "Erf", "Relu", "Sigmoid", "tenon:Silu",
                           "HardSwish", "Tanh", "Mish", "LeakyRelu", "HardSigmoid", "Elu", "Gelu", "Clip"})
      backends::KernelRegistrar({op, "rows", 1, refuses_unary, make_unary});
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cpu
