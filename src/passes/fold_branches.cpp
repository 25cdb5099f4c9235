// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow.h"
#include "ops/op.h"
#include "passes/bodies.h"
#include "passes/rewrite.h"

namespace tenon::passes {

bool fold_branches(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node node = graph.node(id);
    if (ops::flow_of(node.op) != ops::Flow::branch) return false;
    const Tensor* condition = graph.constant(node.inputs[0]);
    if (!condition || condition->dtype() != DType::boolean || condition->elements() != 1) return false;
    const bool holds = *condition->data<uint8_t>() != 0;
    const ir::GraphRef body = node.graph(ops::bodies_of(node)[holds ? 0 : 1]);
    const std::vector<ir::ValueId> results = inline_body(graph, *body, {node.inputs.begin() + 1, node.inputs.end()});
    for (size_t at = 0; at < node.outputs.size(); ++at)
      if (node.outputs[at] != ir::no_value) graph.replace_uses(node.outputs[at], results[at]);
    graph.remove(id);
    return true;
  });
}

}  // namespace tenon::passes
