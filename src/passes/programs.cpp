// SPDX-License-Identifier: Apache-2.0
#include "passes/programs.h"

#include <algorithm>

#include "ops/elementwise_program.h"
#include "ops/floats.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

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

/// Whether an input has as many axes as the result, which numbers of several axes may have given more.
bool keeps_rank(const ir::Graph& graph, const ir::Node& node, const ElementwiseProgram& program) {
  const auto rank = rank_of(graph, node.outputs[0]);
  return rank && std::any_of(program.inputs.begin(), program.inputs.end(),
                             [&](ir::ValueId input) { return rank_of(graph, input) == rank; });
}

}  // namespace

bool is_real(DType type) { return ops::wide_type(type) == DType::f32; }

std::optional<ElementwiseProgram> program_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() != 1 || !is_real(graph.value(node.outputs[0]).dtype)) return std::nullopt;
  std::optional<ElementwiseProgram> program;
  if (node.op == "tenon:Elementwise")
    program = ElementwiseProgram{node.inputs, std::get<std::vector<std::string>>(node.attributes.at("program"))};
  else program = formula_program(graph, node);
  const auto fits = [&](ir::ValueId input) { return input != ir::no_value && is_real(graph.value(input).dtype); };
  if (!program || !keeps_rank(graph, node, *program) ||
      !std::all_of(program->inputs.begin(), program->inputs.end(), fits))
    return std::nullopt;
  return program;
}

}  // namespace tenon::passes
