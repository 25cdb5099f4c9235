// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool slice(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Gather" || graph.constant(node.inputs[0])) return false;
  const auto index = integers(graph, node.inputs[1]);
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!index || index->size() != 1 || !from || !to) return false;
  const auto axis = axis_of(node.integer("axis", 0), from->size());
  if (!axis || !(*from)[*axis].is_constant()) return false;
  const int64_t size = (*from)[*axis].value(), begin = index->front() < 0 ? index->front() + size : index->front();
  if (begin < 0 || begin >= size) return false;
  ir::Shape part = *from;
  part[*axis] = ir::Dim(1);
  const auto target = reshape_target(part, *to);
  if (!target) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::ValueId one = graph.apply(
      "Slice",
      {node.inputs[0], constant(graph, name + ".begin", {begin}), constant(graph, name + ".end", {begin + 1}),
       constant(graph, name + ".axis", {static_cast<int64_t>(*axis)})},
      {}, node.origins, name);
  graph.value(one).dtype = graph.value(node.inputs[0]).dtype;
  graph.value(one).shape = part;
  replace(graph, id, graph.apply("Reshape", {one, constant(graph, name + ".shape", *target)}, {}, node.origins, name));
  return true;
}

}  // namespace

bool slice_gathers(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return slice(graph, id); });
}

}  // namespace tenon::passes
