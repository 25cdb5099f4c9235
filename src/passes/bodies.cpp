// SPDX-License-Identifier: Apache-2.0
#include "passes/bodies.h"

#include <tenon/error.h>

#include "ops/control_flow.h"
#include "ops/op.h"
#include "passes/rewrite.h"

namespace tenon::passes {

bool each_body(ir::Graph& graph, const std::function<bool(ir::Graph&)>& work) {
  return each_node(graph, [&](ir::NodeId id) {
    if (!has_subgraph(graph.node(id))) return false;
    bool changed = false;
    const bool branches = ops::flow_of(graph.node(id).op) == ops::Flow::branch;
    for (auto& [name, body] : ops::infer_bodies(graph, id)) {
      try {
        if (!work(body)) continue;
      } catch (const Error&) {
        // As in inference, a branch that turns out to be wrong for these sizes is one that no run takes, or the run
        // tells its fault.
        if (!branches) throw;
        continue;
      }
      graph.node(id).attributes[name] = std::make_shared<ir::Graph>(std::move(body));
      changed = true;
    }
    return changed;
  });
}

std::vector<ir::ValueId> inline_body(ir::Graph& graph, const ir::Graph& body, const std::vector<ir::ValueId>& inputs) {
  std::vector<ir::ValueId> here(body.values.size(), ir::no_value);
  for (size_t at = 0; at < body.inputs.size(); ++at) here[body.inputs[at]] = inputs[at];
  const auto place = [&](ir::ValueId id) {
    if (id == ir::no_value || here[id] != ir::no_value) return id == ir::no_value ? id : here[id];
    const ir::Value& value = body.value(id);
    return here[id] = value.is_constant() ? graph.add_constant(value.name, value.constant)
                                          : graph.add_value(value.name, value.dtype, value.shape);
  };
  const auto places = [&](const std::vector<ir::ValueId>& ids) {
    std::vector<ir::ValueId> list;
    for (const ir::ValueId id : ids) list.push_back(place(id));
    return list;
  };
  for (const ir::Node& node : body.nodes)
    if (node.alive) graph.add_node(node.op, places(node.inputs), places(node.outputs), node.attributes, node.origins);
  return places(body.outputs);
}

}  // namespace tenon::passes
