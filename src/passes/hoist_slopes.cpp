// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A PRelu by channel behind a DepthToSpace goes before it, where the convolution that made the channels may take it.
bool hoist_slopes_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Node* shuffle = node.op == "PRelu" ? sole(graph, node.inputs[0], "DepthToSpace") : nullptr;
  const Tensor* given = shuffle ? graph.constant(node.inputs[1]) : nullptr;
  const ir::Shape* shape = shuffle ? shape_of(graph, shuffle->outputs[0]) : nullptr;
  if (!given || given->dtype() != DType::f32 || !shape || shape->size() != 4 || !(*shape)[1].is_constant())
    return false;
  const int64_t channels = (*shape)[1].value(), block = shuffle->integer("blocksize", 1), parts = block * block;
  const Dims& dims = given->dims();
  if (given->elements() != channels || dims.rank() < 3 || dims[dims.rank() - 3] != channels) return false;
  const bool together = shuffle->text("mode", "DCR") == "CRD";  // parts of a channel lie side by side
  std::vector<float> slopes(static_cast<size_t>(channels * parts));
  for (int64_t at = 0; at < channels * parts; ++at)
    slopes[static_cast<size_t>(at)] = given->data<float>()[together ? at / parts : at % channels];
  const ir::Node before = *shuffle;
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::ValueId by = constant(graph, graph.value(node.inputs[1]).name, Dims{channels * parts, 1, 1}, slopes);
  const ir::ValueId active = graph.apply("PRelu", {before.inputs[0], by}, {}, node.origins, name + ".before");
  replace(graph, id, graph.apply("DepthToSpace", {active}, before.attributes, before.origins, name));
  return true;
}

}  // namespace

bool hoist_slopes(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return hoist_slopes_at(graph, id); });
}

}  // namespace tenon::passes
