// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/elementwise/map.h"
#include "backends/cuda/elementwise/program_text.h"
#include "ops/expression.h"

namespace tenon::cuda::elementwise {
namespace {

using ops::Instruction;

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
  map.converts = program.empty();
  map.body = program_text(program, operands, is_16_bit(y.dtype));
  return map.simplify() ? Reason() : Reason(Reason::too_many, most_map_axes, "axes");
}

const KernelRegistrar expressions(map_kernel<map_of<formula_of>>(backends::any_expression));
const KernelRegistrar programs(map_kernel<map_of<fused_of>>("tenon:Elementwise"));
const KernelRegistrar conversions(map_kernel<map_of<conversion_of>>("Cast"));

}  // namespace
}  // namespace tenon::cuda::elementwise
