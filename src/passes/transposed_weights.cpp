// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A product by a constant matrix that lies transposed, x W', as a Gemm that reads it as it lies. What embeds words in
/// many language models also gives the scores of all words: so its memory serves both.
bool read_as_it_lies(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "MatMul" || node.has("alpha") || node.has("beta")) return false;
  const ir::Node* turn = made_by(graph, node.inputs[1], "Transpose");
  const Tensor* matrix = turn ? graph.constant(turn->inputs[0]) : nullptr;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!matrix || matrix->dims().rank() != 2 || matrix->dtype() != DType::f32 || !from || from->size() < 2 || !to)
    return false;
  if (turn->has("perm") && is_identity(turn->integers("perm"))) return false;
  const int64_t n = matrix->dims()[0], k = matrix->dims()[1];
  const bool flat = from->size() == 2, residual = node.inputs.size() > 3 && node.inputs[3] != ir::no_value;
  ir::Dim rows(1);
  for (size_t axis = 0; axis + 1 < from->size(); ++axis) rows = rows * (*from)[axis];
  const auto back = reshape_target({rows, ir::Dim(n)}, *to);
  if (!flat && !back) return false;
  const std::vector<std::string> origins = joined(turn->origins, node.origins);
  const std::string name = graph.value(node.outputs[0]).name;
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[1] = turn->inputs[0];
  const auto flatten = [&](ir::ValueId value, int64_t columns, const char* suffix) {
    const ir::ValueId sizes = constant(graph, name + suffix + ".sizes", std::vector<int64_t>{-1, columns});
    const ir::ValueId result = graph.apply("Reshape", {value, sizes}, {}, origins, name + suffix);
    graph.value(result).dtype = DType::f32, graph.value(result).shape = ir::Shape{rows, ir::Dim(columns)};
    return result;
  };
  if (!flat) inputs[0] = flatten(inputs[0], k, ".rows");
  if (!flat && residual) inputs[3] = flatten(inputs[3], n, ".other");
  ir::Attributes attributes = node.attributes;
  attributes["transB"] = int64_t{1};
  ir::ValueId y = graph.apply("Gemm", inputs, attributes, origins, name + (flat ? "" : ".product"));
  if (!flat) {
    graph.value(y).dtype = DType::f32, graph.value(y).shape = ir::Shape{rows, ir::Dim(n)};
    y = graph.apply("Reshape", {y, constant(graph, name + ".sizes", *back)}, {}, origins, name);
  }
  replace(graph, id, y);
  return true;
}

}  // namespace

bool transposed_weights(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return read_as_it_lies(graph, id); });
}

}  // namespace tenon::passes
