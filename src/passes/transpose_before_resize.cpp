// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/resizing.h"

namespace tenon::passes {

/// A map that is made larger and then transposed, as at the end of networks that tell a class for each pixel, is
/// transposed while it is small.
bool transpose_before_resize(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node node = graph.node(id);
    if (node.op != "Transpose") return false;
    const auto resizing = resizing_of(graph, node.inputs[0]);
    if (!resizing || resizing->share >= 1) return false;
    Perm perm = node.integers("perm");
    if (perm.empty())
      for (size_t axis = resizing->in.size(); axis-- > 0;) perm.push_back(static_cast<int64_t>(axis));
    const std::string name = graph.value(node.outputs[0]).name;
    const ir::ValueId turned = graph.apply("Transpose", {resizing->from}, {{"perm", perm}}, node.origins, name);
    replace(graph, id, resized(graph, *resizing, turned, perm, resizing->out[perm.back()], node.origins));
    return true;
  });
}

}  // namespace tenon::passes
