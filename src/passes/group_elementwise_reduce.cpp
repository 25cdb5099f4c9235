// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/elementwise_program.h"
#include "ops/group_op.h"
#include "ops/op.h"
#include "passes/groups.h"
#include "passes/rewrite.h"

namespace tenon::passes::group_elementwise_reduce {
namespace {

constexpr size_t most_inputs = 8;
const char* const own_attributes[] = {"program", "reduction", "axes"};

/// tenon:ElementwiseReduce: a program of elementwise instructions on all inputs, and a reduction of what it gives along
/// `axes`, which has the other attributes.
std::vector<ir::ValueId> members(ir::Graph& graph, const ir::Node& group, const std::vector<ir::ValueId>& inputs) {
  ir::Attributes rest = group.attributes;
  for (const char* own : own_attributes) rest.erase(own);
  const ir::ValueId whole =
      graph.apply("tenon:Elementwise", inputs, {{"program", group.attributes.at("program")}}, group.origins);
  const ir::ValueId axes = constant(graph, "axes", group.integers("axes"));
  return {graph.apply(group.text("reduction", "").c_str(), {whole, axes}, std::move(rest), group.origins)};
}

/// The program of an elementwise node on floats, with its inputs but numbers; false where it has none.
bool program_of(const ir::Graph& graph, const ir::Node& node, Group& group) {
  if (node.op == "tenon:Elementwise") {
    group.inputs = node.inputs;
    group.attributes["program"] = node.attributes.at("program");
    return !ops::gives_bytes(*ops::program_of(node));
  }
  const auto number = [&](size_t at) -> std::optional<float> {
    const auto found = node.inputs[at] == ir::no_value ? std::nullopt : scalar(graph, node.inputs[at]);
    return found ? std::optional(static_cast<float>(*found)) : std::nullopt;
  };
  const auto formula = ops::formula_of(node, number);
  if (!formula) return false;
  const auto count = static_cast<size_t>(ops::expression(formula->id).operands);
  std::vector<std::string> operands(count);
  for (size_t at = 0; at < count; ++at) {
    if (const auto literal = number(at)) {
      operands[at] = ops::program_number(*literal);
      continue;
    }
    const auto found = std::find(group.inputs.begin(), group.inputs.end(), node.inputs[at]);
    operands[at] = "%" + std::to_string(found - group.inputs.begin());
    if (found == group.inputs.end()) group.inputs.push_back(node.inputs[at]);
  }
  group.attributes["program"] = std::vector<std::string>{ops::program_line(*formula, operands)};
  return true;
}

/// A reduction of floats along axes that are known, and the elementwise node that alone makes what it reads.
std::optional<Group> reduction_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& node = graph.node(id);
  const ops::Reduction reduction = ops::traits_of(node.op).reduction();
  if (reduction == ops::Reduction::none || ops::has_trait(node.op, ops::Trait::global) || taken.count(id) ||
      node.inputs.size() != 2 || graph.only_user(node.inputs[0]) == ir::no_node)
    return std::nullopt;
  const auto axes = integers(graph, node.inputs[1]);
  const ir::NodeId maker = graph.value(node.inputs[0]).producer;
  if (!axes || axes->empty() || maker == ir::no_node || taken.count(maker)) return std::nullopt;
  Group group{{maker, id}, "tenon:ElementwiseReduce", {}, {node.outputs[0]}, node.attributes};
  if (!program_of(graph, graph.node(maker), group) || group.inputs.empty() || group.inputs.size() > most_inputs)
    return std::nullopt;
  const bool are_floats = std::all_of(group.inputs.begin(), group.inputs.end(), [&](ir::ValueId input) {
    return input != ir::no_value && is_float(graph.value(input).dtype);
  });
  if (!are_floats) return std::nullopt;
  group.attributes["reduction"] = node.op.str();
  group.attributes["axes"] = *axes;
  return group;
}

const ops::Registrar op(ops::group_op<members>("tenon:ElementwiseReduce", 1, most_inputs, 1,
                                               {ops::attr::texts("program").required().internal(),
                                                ops::attr::text("reduction").required().internal(),
                                                ops::attr::integers("axes").internal(), ops::attr::flag("keepdims"),
                                                ops::attr::flag("noop_with_empty_axes"),
                                                ops::attr::element_type("output_dtype").internal()}));
const GroupRegistrar registered("tenon:ElementwiseReduce", reduction_at);

}  // namespace
}  // namespace tenon::passes::group_elementwise_reduce
