// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/programs.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// What a Cast between floats reads; no_value where the node is none.
ir::ValueId cast_from(const ir::Graph& graph, const ir::Node* node) {
  if (!node || node->op != "Cast" || !is_real(graph.value(node->inputs[0]).dtype) ||
      !is_real(graph.value(node->outputs[0]).dtype))
    return ir::no_value;
  return node->inputs[0];
}

/// An elementwise node in the place of itself and the casts beside it. One that several read is left to them where it
/// narrows, as what it gives is less to read.
bool absorb(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  auto program = program_of(graph, node);
  if (!program) return false;
  bool changed = false;
  for (ir::ValueId& input : program->inputs) {
    const ir::ValueId from = cast_from(graph, graph.producer(input));
    if (from == ir::no_value ||
        (size_of(graph.value(from).dtype) > size_of(graph.value(input).dtype) && graph.only_user(input) != id))
      continue;
    input = from, changed = true;
  }
  const ir::NodeId reader = graph.only_user(node.outputs[0]);
  const bool gives = reader != ir::no_node && cast_from(graph, &graph.node(reader)) != ir::no_value;
  if (!changed && !gives) return false;
  const ir::NodeId end = gives ? reader : id;
  const ir::Value old = graph.value(graph.node(end).outputs[0]);
  const ir::ValueId result = graph.apply(
      "tenon:Elementwise", program->inputs,
      {{"program", program->lines}, {"output_dtype", static_cast<int64_t>(old.dtype)}}, node.origins, old.name);
  graph.value(result).dtype = old.dtype, graph.value(result).shape = old.shape;
  replace(graph, end, result);
  if (gives) graph.remove(id);
  return true;
}

}  // namespace

bool absorb_casts(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return absorb(graph, id); });
}

}  // namespace tenon::passes
