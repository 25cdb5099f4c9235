// SPDX-License-Identifier: Apache-2.0
#include "ops/group_op.h"
#include "ops/op.h"
#include "passes/groups.h"
#include "passes/programs.h"
#include "passes/rewrite.h"

namespace tenon::passes::group_elementwise_reduce {
namespace {

constexpr size_t most_inputs = 8;
const char* const own_attributes[] = {"program", "reduction", "axes"};

/// tenon:ElementwiseReduce: a program of elementwise instructions on all inputs, and a reduction of what it gives along
/// `axes`, which has the other attributes. What is between them is of f32.
std::vector<ir::ValueId> members(ir::Graph& graph, const ir::Node& group, const std::vector<ir::ValueId>& inputs) {
  ir::Attributes rest = group.attributes;
  for (const char* own : own_attributes) rest.erase(own);
  const ir::ValueId whole = graph.apply(
      "tenon:Elementwise", inputs,
      {{"program", group.attributes.at("program")}, {"output_dtype", static_cast<int64_t>(DType::f32)}}, group.origins);
  const ir::ValueId axes = constant(graph, "axes", group.integers("axes"));
  return {graph.apply(group.text("reduction", "").c_str(), {whole, axes}, std::move(rest), group.origins)};
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
  const auto program = program_of(graph, graph.node(maker));
  const DType type = graph.value(node.outputs[0]).dtype;
  if (!program || program->inputs.size() > most_inputs || !is_float(type)) return std::nullopt;
  Group group{{maker, id}, "tenon:ElementwiseReduce", program->inputs, {node.outputs[0]}, node.attributes};
  group.attributes["program"] = program->lines;
  group.attributes["output_dtype"] = static_cast<int64_t>(type);
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
