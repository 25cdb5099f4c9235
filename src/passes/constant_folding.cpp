// SPDX-License-Identifier: Apache-2.0
#include <tenon/error.h>

#include <algorithm>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t largest_result = 64 << 20;   // bytes of one folded tensor
constexpr int64_t largest_growth = 256 << 20;  // bytes that one run of the pass may add beyond what it reads
constexpr int64_t least_shared = 1 << 20;      // bytes of a tensor that is not to be there twice

/// Results of unknown size are folded only where they are part of a constant that is in bounds, as what is known must
/// be.
bool is_affordable(const ir::Graph& graph, const ir::Node& node) {
  if (ops::has_trait(node.op, ops::Trait::finds)) {
    const Tensor& all = graph.value(node.inputs[0]).constant;
    return all.elements() <= largest_result / static_cast<int64_t>(sizeof(int64_t) * Dims::max_rank);
  }
  for (ir::ValueId id : node.outputs) {
    if (id == ir::no_value) continue;
    const ir::Value& value = graph.value(id);
    if (value.dtype == DType::sequence || !value.shape || !ir::is_constant(*value.shape)) return false;
    Dims dims;
    if (value.shape->size() > Dims::max_rank) return false;
    for (const ir::Dim& dim : *value.shape) {
      if (dim.value() < 0) return false;
      dims.push_back(dim.value());
    }
    int64_t room = largest_result / std::max<int64_t>(1, static_cast<int64_t>(size_of(value.dtype)));
    for (int64_t size : dims) room /= std::max<int64_t>(1, size);
    if (room == 0) return false;
  }
  return true;
}

int64_t bytes_of(const Tensor& tensor) {
  return tensor && size_of(tensor.dtype()) ? static_cast<int64_t>(tensor.bytes()) : 0;
}

bool is_foldable(const ir::Graph& graph, const ir::Node& node) {
  if (!ops::find(node.op) || is_random(node) || has_subgraph(node)) return false;
  for (ir::ValueId id : node.inputs)
    if (id != ir::no_value && !graph.value(id).is_constant()) return false;
  return is_affordable(graph, node);
}

/// Bytes that stand for the weights of a convolution or product stay as they are until lower_quantised has seen them.
bool is_quantised_weight(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "DequantizeLinear") return false;
  const DType type = graph.value(node.inputs[0]).dtype;
  if (size_of(type) != 1 && type != DType::i4 && type != DType::u4) return false;
  const std::vector<ir::NodeId>& users = graph.value(node.outputs[0]).users;
  return std::any_of(users.begin(), users.end(), [&](ir::NodeId user) {
    const ir::Node& reader = graph.node(user);
    const bool anchor =
        reader.op == "Conv" || reader.op == "ConvTranspose" || reader.op == "MatMul" || reader.op == "Gemm";
    return anchor && reader.inputs[1] == node.outputs[0];
  });
}

/// A transposed matrix that products read, and others untransposed: transposed_weights makes them read it as it lies.
bool is_shared_matrix(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Transpose") return false;
  const ir::Value& matrix = graph.value(node.inputs[0]);
  const std::vector<ir::NodeId>& users = graph.value(node.outputs[0]).users;
  if (matrix.dtype != DType::f32 || matrix.constant.dims().rank() != 2 || matrix.users.size() < 2 ||
      bytes_of(matrix.constant) < least_shared)
    return false;
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](ir::NodeId user) {
    const ir::Node& reader = graph.node(user);
    return reader.op == "MatMul" && reader.inputs[1] == node.outputs[0] && reader.inputs[0] != node.outputs[0];
  });
}

bool fold(ir::Graph& graph, bool weights) {
  int64_t growth = 0;
  bool changed = false;
  // A folded constant may decide later sizes, and those more constants: sizes are inferred anew on the way.
  return each_node(graph, [&](ir::NodeId id) {
    if (changed) ops::infer(graph, id);
    if (fold_shape(graph, id)) changed = true;
    const ir::Node node = graph.node(id);
    if (growth > largest_growth || !is_foldable(graph, node)) return changed;
    if (!weights && (is_quantised_weight(graph, node) || is_shared_matrix(graph, node))) return changed;
    std::vector<Tensor> inputs, results;
    for (ir::ValueId input : node.inputs)
      inputs.push_back(input == ir::no_value ? Tensor() : graph.value(input).constant);
    try {
      results = ops::evaluate(node, inputs);
    } catch (const Error&) {
      return changed;  // the node keeps its fault for the run, which may never reach it
    }
    for (size_t at = 0; at < node.outputs.size(); ++at)
      if (node.outputs[at] != ir::no_value && !results[at]) return changed;
    for (const Tensor& tensor : results) growth += bytes_of(tensor);
    for (const Tensor& tensor : inputs) growth -= bytes_of(tensor);
    for (size_t at = 0; at < node.outputs.size(); ++at)
      if (const ir::ValueId output = node.outputs[at]; output != ir::no_value)
        graph.replace_uses(output, graph.add_constant(graph.value(output).name, results[at]));
    graph.remove(id);
    return changed = true;
  });
}

}  // namespace

bool constant_folding(ir::Graph& graph) { return fold(graph, false); }
bool fold_weights(ir::Graph& graph) { return fold(graph, true); }

}  // namespace tenon::passes
