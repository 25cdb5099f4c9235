// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {

/// scale * (x - mean) / sqrt(variance + epsilon) + bias, with all four constant, is a Mul and an Add; fold_scale takes
/// them further.
bool fold_batch_norm(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node node = graph.node(id);
    if (node.op != "BatchNormalization" || node.integer("training_mode", 0) != 0 || node.has("layout")) return false;
    const auto rank = rank_of(graph, node.inputs[0]);
    const Tensor* parts[4];
    for (size_t at = 0; at < 4; ++at) {
      parts[at] = graph.constant(node.inputs[at + 1]);
      if (!parts[at] || parts[at]->dtype() != DType::f32 || parts[at]->elements() != parts[0]->elements()) return false;
    }
    if (!rank || *rank < 2 || graph.value(node.inputs[0]).dtype != DType::f32) return false;
    const int64_t channels = parts[0]->elements();
    const double epsilon = node.real("epsilon", 1e-5f);
    std::vector<float> scale(channels), shift(channels);
    for (int64_t c = 0; c < channels; ++c) {
      const double factor = parts[0]->data<float>()[c] / std::sqrt(parts[3]->data<float>()[c] + epsilon);
      scale[c] = static_cast<float>(factor);
      shift[c] = static_cast<float>(parts[1]->data<float>()[c] - factor * parts[2]->data<float>()[c]);
    }
    Dims dims{channels};
    for (size_t at = 2; at < *rank; ++at) dims.push_back(1);
    const std::string name = graph.value(node.outputs[0]).name;
    const auto scaled = graph.apply("Mul", {node.inputs[0], constant(graph, name + ".scale", dims, scale)}, {},
                                    node.origins, name + ".scaled");
    replace(graph, id,
            graph.apply("Add", {scaled, constant(graph, name + ".shift", dims, shift)}, {}, node.origins, name));
    return true;
  });
}

}  // namespace tenon::passes
