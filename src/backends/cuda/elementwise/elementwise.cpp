// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include "backends/cuda/elementwise/map.h"
#include "ops/elementwise_program.h"
#include "ops/expression.h"

namespace tenon::cuda::elementwise {
namespace {

using ops::Instruction;

/// A float as CUDA C++ writes it, exactly.
std::string literal(float value) {
  if (std::isinf(value)) return value > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
  char text[40];
  const auto end =
      std::to_chars(text, text + sizeof text, std::fabs(static_cast<double>(value)), std::chars_format::hex);
  return std::string("(float)(") + (std::signbit(value) ? "-0x" : "0x") + std::string(text, end.ptr) + ")";
}

/// The step in CUDA C++. Numbers that are rounded to 16 bits afterwards may be approximate, but for exact expressions.
std::string text_of(const Instruction& step, const std::string& a, const std::string& b, bool fast) {
  const ops::Expression& what = ops::expression(step.id);
  const std::string type = std::string("<tenon::expr::") + what.name + ", " +
                           (what.is_exact ? "Exact"
                            : fast        ? "Fast"
                                          : "Real") +
                           ">";
  if (what.operands == 2) return "combine" + type + "(" + a + ", " + b + ")";
  return "evaluate" + type + "(" + a + ", " + literal(step.alpha) + ", " + literal(step.beta) + ")";
}

/// What is computed of the operands that are tensors of the map.
struct Program {
  size_t operands = 0;
  std::vector<Instruction> instructions;
  bool bytes = false;  // may read and give them
};
using ProgramOf = bool (*)(const Problem& problem, Program& program);  // false: it is none

/// Another type of float takes no instruction.
bool conversion_of(const Problem&, Program& program) {
  program.operands = 1;
  return true;
}

bool fused_of(const Problem& problem, Program& program) {
  program = {problem.inputs.size(), *ops::program_of(*problem.node), true};
  return true;
}

bool formula_of(const Problem& problem, Program& program) {
  const ir::Node& node = *problem.node;
  const auto formula = ops::formula_of(node, [&](size_t at) {
    return at < problem.inputs.size() ? ops::number_of(problem.inputs[at].constant) : std::nullopt;
  });
  if (!formula) return false;
  program.operands = static_cast<size_t>(ops::expression(formula->id).operands);
  program.instructions = {{formula->id, {0}, {program.operands == 2 ? 1 : -1}, formula->alpha, formula->beta}};
  return true;
}

template <ProgramOf program_of>
Reason map_of(const Problem& problem, Map& map) {
  Program found;
  if (!program_of(problem, found)) return {Reason::form, "expression of its first operands alone"};
  const auto& [operands, program, takes_bytes] = found;
  if (operands > most_map_operands) return {Reason::too_many, most_map_operands, "operands"};
  const Operand& y = problem.outputs[0];
  map.dims = y.dims;
  for (size_t at = 0; at <= operands; ++at) {
    const Operand& operand = at < operands ? problem.inputs[at] : y;
    const bool bytes = operand.dtype == DType::u8 && takes_bytes;
    if (!is_real(operand.dtype) && !bytes) return {Reason::element_type, "elements", "f32, f16 or bf16"};
    map.add(operand, type_name(operand.dtype));
  }
  const bool fast = is_16_bit(y.dtype);
  const auto value = [&](const Instruction::Operand& from) {
    return from.reg < 0 ? literal(from.number) : "v" + std::to_string(from.reg);
  };
  for (size_t k = 0; k < program.size(); ++k) {
    const Instruction& step = program[k];
    const std::string b = ops::is_binary(step) ? value(step.b) : "";
    map.body +=
        "    const float v" + std::to_string(operands + k) + " = " + text_of(step, value(step.a), b, fast) + ";\n";
  }
  map.converts = program.empty();
  map.body += "    r = v" + std::to_string(program.empty() ? 0 : operands + program.size() - 1) + ";\n";
  return map.simplify() ? Reason() : Reason(Reason::too_many, most_map_axes, "axes");
}

const KernelRegistrar expressions(map_kernel<map_of<formula_of>>(backends::any_expression));
const KernelRegistrar programs(map_kernel<map_of<fused_of>>("tenon:Elementwise"));
const KernelRegistrar conversions(map_kernel<map_of<conversion_of>>("Cast"));

}  // namespace
}  // namespace tenon::cuda::elementwise
