// SPDX-License-Identifier: Apache-2.0
#include "passes/programs.h"

#include <algorithm>

#include "ops/elementwise_program.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool is_float_value(const ir::Graph& graph, ir::ValueId id) {
  return id != ir::no_value && (graph.value(id).dtype == DType::f32 || graph.value(id).dtype == DType::f16 ||
                                graph.value(id).dtype == DType::bf16);
}

/// The line of a node that is one expression.
std::optional<ElementwiseProgram> formula_program(const ir::Graph& graph, const ir::Node& node) {
  const auto number = [&](size_t at) -> std::optional<float> {
    const auto found = node.inputs[at] == ir::no_value ? std::nullopt : scalar(graph, node.inputs[at]);
    return found ? std::optional(static_cast<float>(*found)) : std::nullopt;
  };
  const auto formula = ops::formula_of(node, number);
  if (!formula) return std::nullopt;
  ElementwiseProgram program;
  std::vector<std::string> operands;
  for (size_t at = 0; at < static_cast<size_t>(ops::expression(formula->id).operands); ++at) {
    if (const auto literal = number(at)) {
      operands.push_back(ops::program_number(*literal));
      continue;
    }
    const auto found = std::find(program.inputs.begin(), program.inputs.end(), node.inputs[at]);
    operands.push_back("%" + std::to_string(found - program.inputs.begin()));
    if (found == program.inputs.end()) program.inputs.push_back(node.inputs[at]);
  }
  program.lines = {ops::program_line(*formula, operands)};
  return program;
}

}  // namespace

std::optional<ElementwiseProgram> program_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() != 1 || !is_float_value(graph, node.outputs[0])) return std::nullopt;
  std::optional<ElementwiseProgram> program;
  if (node.op == "tenon:Elementwise")
    program = ElementwiseProgram{node.inputs, std::get<std::vector<std::string>>(node.attributes.at("program"))};
  else program = formula_program(graph, node);
  const auto fits = [&](ir::ValueId input) { return is_float_value(graph, input); };
  if (!program || program->inputs.empty() || !std::all_of(program->inputs.begin(), program->inputs.end(), fits))
    return std::nullopt;
  return program;
}

}  // namespace tenon::passes
