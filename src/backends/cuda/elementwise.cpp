#include <cmath>
#include <cstdio>
#include <map>

#include "backends/cuda/convolution.h"
#include "backends/cuda/map.h"
#include "ops/elementwise_program.h"
#include "ops/half.h"

namespace tenon::cuda {
namespace {

using ops::Instruction;
using Word = Instruction::Word;

/// A float as CUDA C++ writes it, exactly.
std::string literal(float value) {
  if (std::isinf(value)) return value > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
  char text[40];
  std::snprintf(text, sizeof text, "(%a)", static_cast<double>(value));
  return "(float)" + std::string(text);
}

std::string activation(ops::Activation kind, bool fast, const std::string& a, float alpha, float beta) {
  return "activate<" + std::to_string(static_cast<int>(kind)) + ", " + (fast ? "true" : "false") + ">(" + a + ", " +
         literal(alpha) + ", " + literal(beta) + ")";
}

std::string expression(const Instruction& step, const std::string& a, const std::string& b, bool fast) {
  using ops::Activation;
  const auto act = [&](Activation kind) { return activation(kind, fast, a, step.alpha, step.beta); };
  switch (step.word) {
    case Word::add: return a + " + " + b;
    case Word::sub: return a + " - " + b;
    case Word::mul: return a + " * " + b;
    case Word::div: return a + " / " + b;
    case Word::max: return a + " != " + a + " || " + a + " > " + b + " ? " + a + " : " + b;
    case Word::min: return a + " != " + a + " || " + a + " < " + b + " ? " + a + " : " + b;
    case Word::pow: return b == literal(2) ? a + " * " + a : "powf(" + a + ", " + b + ")";
    case Word::relu: return act(Activation::relu);
    case Word::sigmoid: return act(Activation::sigmoid);
    case Word::tanh: return act(Activation::tanh);
    case Word::silu: return act(Activation::silu);
    case Word::hardswish: return act(Activation::hardswish);
    case Word::mish: return act(Activation::mish);
    case Word::softplus: return "(" + a + " > 0.f ? " + a + " + log1pf(expf(-" + a + ")) : log1pf(expf(" + a + ")))";
    case Word::exp: return "expf(" + a + ")";
    case Word::log: return "logf(" + a + ")";
    case Word::sqrt: return "sqrtf(" + a + ")";
    case Word::neg: return "-" + a;
    case Word::abs: return "fabsf(" + a + ")";
    case Word::reciprocal: return "1.f / " + a;
    case Word::erf: return "erff(" + a + ")";
    case Word::floor: return "floorf(" + a + ")";
    case Word::ceil: return "ceilf(" + a + ")";
    case Word::sin: return "sinf(" + a + ")";
    case Word::cos: return "cosf(" + a + ")";
    case Word::clip: return act(Activation::clip);
    case Word::hardsigmoid: return act(Activation::hardsigmoid);
    case Word::leakyrelu: return act(Activation::leakyrelu);
    case Word::elu: return act(Activation::elu);
    case Word::gelu: return act(Activation::gelu);
    case Word::gelutanh: return act(Activation::gelutanh);
    case Word::dequant: return "__fmul_rn(" + a + " - " + literal(step.beta) + ", " + literal(step.alpha) + ")";
    case Word::quant:
      return a + " != " + a + " ? " + literal(step.beta) + " : fminf(fmaxf(rintf(__fdiv_rn(" + a + ", " +
             literal(step.alpha) + ")) + " + literal(step.beta) + ", 0.f), 255.f)";
  }
  return a;
}

/// Ops that are one instruction.
const std::map<std::string, const char*>& words() {
  static const std::map<std::string, const char*> table = {{"Add", "add"},
                                                           {"Sub", "sub"},
                                                           {"Mul", "mul"},
                                                           {"Div", "div"},
                                                           {"Max", "max"},
                                                           {"Min", "min"},
                                                           {"Pow", "pow"},
                                                           {"Relu", "relu"},
                                                           {"Sigmoid", "sigmoid"},
                                                           {"Tanh", "tanh"},
                                                           {"tenon:Silu", "silu"},
                                                           {"HardSwish", "hardswish"},
                                                           {"Mish", "mish"},
                                                           {"Softplus", "softplus"},
                                                           {"Exp", "exp"},
                                                           {"Log", "log"},
                                                           {"Sqrt", "sqrt"},
                                                           {"Neg", "neg"},
                                                           {"Abs", "abs"},
                                                           {"Reciprocal", "reciprocal"},
                                                           {"Erf", "erf"},
                                                           {"Floor", "floor"},
                                                           {"Ceil", "ceil"},
                                                           {"Sin", "sin"},
                                                           {"Cos", "cos"},
                                                           {"Clip", "clip"},
                                                           {"HardSigmoid", "hardsigmoid"},
                                                           {"LeakyRelu", "leakyrelu"},
                                                           {"Elu", "elu"},
                                                           {"Gelu", "gelu"}};
  return table;
}

/// The operands that are tensors of the map, and the program over them; false where it is none. Cast has no
/// instruction.
bool program_of(const Problem& problem, size_t& operands, std::vector<Instruction>& program) {
  const ir::Node& node = *problem.node;
  operands = problem.inputs.size();
  if (node.op == "Cast") return true;
  if (node.op == "tenon:Elementwise") {
    program = ops::parse_program(std::get<std::vector<std::string>>(node.attributes.at("program")), operands);
    return true;
  }
  const auto found = words().find(node.op);
  if (found == words().end()) return false;
  const std::string word = found->second;
  const bool binary = node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div" ||
                      node.op == "Max" || node.op == "Min" || node.op == "Pow";
  if (binary && operands != 2) return false;
  std::string text = word + (binary ? " %0 %1" : " %0");
  if (word == "gelu" && node.text("approximate", "none") == "tanh") text = "gelutanh %0";
  if (!binary) operands = 1;
  if (word == "clip") text += " 0 0";
  if (word == "hardsigmoid") text += " 0 0";
  if (word == "leakyrelu" || word == "elu") text += " 0";
  program = ops::parse_program({text}, operands);
  Instruction& only = program[0];
  if (word == "leakyrelu") only.alpha = node.real("alpha", 0.01f);
  if (word == "elu") only.alpha = node.real("alpha", 1);
  if (word == "hardsigmoid") only.alpha = node.real("alpha", 0.2f), only.beta = node.real("beta", 0.5f);
  if (word == "clip") {
    only.alpha = -INFINITY, only.beta = INFINITY;
    for (size_t at : {size_t{1}, size_t{2}})
      if (problem.inputs.size() > at && problem.inputs[at]) {
        const Tensor& bound = problem.inputs[at].constant;
        if (!bound || !is_real(bound.dtype()) || bound.elements() != 1) return false;
        (at == 1 ? only.alpha : only.beta) = bound.dtype() == DType::f32   ? *bound.data<float>()
                                             : bound.dtype() == DType::f16 ? ops::f16_value(*bound.data<uint16_t>())
                                                                           : ops::bf16_value(*bound.data<uint16_t>());
      }
  }
  return true;
}

const char* map_of(const Problem& problem, Map& map) {
  size_t operands = 0;
  std::vector<Instruction> program;
  if (!program_of(problem, operands, program)) return "its operands are not of one shape of program";
  if (operands > most_map_operands) return "too many operands";
  const Operand& y = problem.outputs[0];
  map.dims = y.dims;
  for (size_t at = 0; at <= operands; ++at) {
    const Operand& operand = at < operands ? problem.inputs[at] : y;
    const bool bytes = operand.dtype == DType::u8 && problem.node->op == "tenon:Elementwise";
    if (!is_real(operand.dtype) && !bytes) return "only f32, f16 and bf16";
    map.add(operand, type_name(operand.dtype));
  }
  const bool fast = is_narrow(y.dtype);
  const auto value = [&](const Instruction::Operand& from) {
    return from.reg < 0 ? literal(from.number) : "v" + std::to_string(from.reg);
  };
  for (size_t k = 0; k < program.size(); ++k) {
    const Instruction& step = program[k];
    const std::string b = ops::is_binary(step.word) ? value(step.b) : "";
    map.body +=
        "    const float v" + std::to_string(operands + k) + " = " + expression(step, value(step.a), b, fast) + ";\n";
  }
  map.body += "    r = v" + std::to_string(program.empty() ? 0 : operands + program.size() - 1) + ";\n";
  return map.simplify() ? nullptr : "too many axes";
}

struct Register {
  Register() {
    for (const auto& [op, word] : words()) KernelRegistrar(map_kernel<map_of>(op));
    for (const char* op : {"tenon:Elementwise", "Cast"}) KernelRegistrar(map_kernel<map_of>(op));
  }
};
const Register registered;

}  // namespace
}  // namespace tenon::cuda
