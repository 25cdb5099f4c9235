// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t most_rows = int64_t{1} << 16;  // of one batch entry: they are copied to the host

bool bound(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "NonMaxSuppression" || node.inputs.size() < 3) return false;
  const auto most = integers(graph, node.inputs[2]);
  const ir::Shape* scores = shape_of(graph, node.inputs[1]);
  if (!most || most->size() != 1 || most->front() < 1 || !scores) return false;
  const ir::Dim &classes = (*scores)[1], &boxes = (*scores)[2];
  if (!classes.is_constant() || !boxes.is_constant() ||
      classes.value() * std::min(most->front(), boxes.value()) > most_rows)
    return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::ValueId rows = graph.add_value(name + ".rows"), count = graph.add_value(name + ".count");
  graph.add_node("tenon:BoundedNms", node.inputs, {rows, count}, node.attributes, node.origins);
  replace(graph, id,
          graph.apply("Slice",
                      {rows, constant(graph, name + ".begin", {0}), count, constant(graph, name + ".axis", {0})}, {},
                      node.origins, name));
  return true;
}

}  // namespace

bool bound_nms(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return bound(graph, id); });
}

}  // namespace tenon::passes
