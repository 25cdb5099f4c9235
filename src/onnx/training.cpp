// SPDX-License-Identifier: Apache-2.0
#include "onnx/training.h"

namespace tenon::onnx {
namespace {

constexpr size_t most_named = 3;

bool is_training(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == "BatchNormalization") return node.integer("training_mode", 0) != 0;
  if (node.op != "Dropout" || node.inputs.size() < 3) return false;
  const Tensor* mode = graph.constant(node.inputs[2]);
  return mode && mode->dtype() == DType::boolean && mode->elements() == 1 && *mode->data<bool>();
}

}  // namespace

std::string training_nodes(const ir::Graph& graph) {
  std::string list;
  size_t nodes = 0;
  for (const ir::Node& node : graph.nodes)
    if (is_training(graph, node) && ++nodes <= most_named)
      list += (list.empty() ? "'" : ", '") + node.label() + "' (" + node.op.str() + ")";
  if (nodes == 0) return "";
  return "nodes are in training mode, where results are random or depend on the batch: " + list +
         (nodes > most_named ? " and " + std::to_string(nodes - most_named) + " more" : "") +
         "; export the model in evaluation mode, as by model.eval()";
}

}  // namespace tenon::onnx
