// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The logarithm of a sum of exponentials: all less the largest, which is added back. One that is infinite counts as
/// the largest float, from which infinities differ as they should.
bool lower_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "ReduceLogSumExp") return false;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to || graph.value(node.inputs[0]).dtype != DType::f32) return false;
  const auto axes = node.inputs.size() > 1 && node.inputs[1] != ir::no_value ? integers(graph, node.inputs[1])
                                                                             : std::optional<std::vector<int64_t>>();
  if (!axes || axes->empty()) return false;
  ir::Shape kept = *from;
  for (const int64_t given : *axes) {
    const auto axis = axis_of(given, kept.size());
    if (!axis) return false;
    kept[*axis] = 1;
  }
  const bool keeps = node.integer("keepdims", 1) != 0;
  const auto target = reshape_target(kept, *to);
  if (!keeps && !target) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto apply = [&](const char* op, const std::vector<ir::ValueId>& inputs, const ir::Attributes& attributes) {
    return graph.apply(op, inputs, attributes, node.origins, name);
  };
  constexpr float most = std::numeric_limits<float>::max();
  const ir::ValueId low = constant(graph, name + ".low", Dims{}, {-most});
  const ir::ValueId high = constant(graph, name + ".high", Dims{}, {most});
  const ir::ValueId largest =
      apply("Clip", {apply("ReduceMax", {node.inputs[0], node.inputs[1]}, {{"keepdims", int64_t{1}}}), low, high}, {});
  const ir::ValueId powers = apply("Exp", {apply("Sub", {node.inputs[0], largest}, {})}, {});
  ir::ValueId result =
      apply("Add", {apply("ReduceLogSum", {powers, node.inputs[1]}, {{"keepdims", int64_t{1}}}), largest}, {});
  if (!keeps) result = apply("Reshape", {result, constant(graph, name + ".shape", *target)}, {});
  replace(graph, id, result);
  return true;
}

}  // namespace

bool lower_log_sum_exp(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return lower_at(graph, id); });
}

}  // namespace tenon::passes
