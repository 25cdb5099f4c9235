// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

const Perm swapped_last{0, 1, 3, 2};

/// Rewrites windows over images of one column, [N, C, H, 1], as windows over one row, which kernels take many pixels at
/// a time of. Values are turned on first use and kept.
class Turner {
 public:
  explicit Turner(ir::Graph& graph) : graph_(graph) {}

  bool visit(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.outputs.size() != 1 || !is_column(node.outputs[0])) return false;
    if (node.op == "Conv" || node.op == "MaxPool" || node.op == "AveragePool") return window(id, node);
    return is_elementwise(node) && elementwise(id, node);
  }

 private:
  bool is_column(ir::ValueId id) const {
    const ir::Shape* shape = shape_of(graph_, id);
    return shape && shape->size() == 4 && (*shape)[3] == ir::Dim(1) && !((*shape)[2] == ir::Dim(1)) &&
           graph_.value(id).dtype == DType::f32;
  }

  ir::ValueId turned(ir::ValueId id) {
    if (const auto found = turned_.find(id); found != turned_.end()) return found->second;
    const std::string name = graph_.value(id).name;
    if (const Tensor* tensor = graph_.constant(id)) {
      if (tensor->dims().rank() < 2) return id;  // it has one element, as the last axis has
      Dims dims = tensor->dims();
      std::swap(dims[dims.rank() - 1], dims[dims.rank() - 2]);
      return turned_[id] = graph_.add_constant(name, tensor->reshaped(dims));
    }
    return turned_[id] = graph_.apply("Transpose", {id}, {{"perm", swapped_last}}, {}, name);
  }

  void give(ir::NodeId id, const ir::Node& node, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
    const ir::ValueId out = node.outputs[0];
    const std::string name = graph_.value(out).name;
    const ir::ValueId row = graph_.apply(node.op, std::move(inputs), std::move(attributes), node.origins, name);
    const ir::ValueId column = graph_.apply("Transpose", {row}, {{"perm", swapped_last}}, node.origins, name);
    graph_.value(column).shape = graph_.value(out).shape;
    graph_.value(column).dtype = graph_.value(out).dtype;
    replace(graph_, id, column);
    turned_[column] = row;
  }

  bool window(ir::NodeId id, const ir::Node& node) {
    const bool weighted = node.op == "Conv";
    const Tensor* weights = weighted ? graph_.constant(node.inputs[1]) : nullptr;
    if (!is_column(node.inputs[0]) || (weighted && (!weights || weights->dims().rank() != 4))) return false;
    // A window of several columns sees padding in all but one of them.
    const int64_t width = weighted ? weights->dims()[3] : node.integers("kernel_shape", {0, 0})[1];
    if (width != 1) return false;
    ir::Attributes attributes = node.attributes;
    for (const char* name : {"kernel_shape", "strides", "dilations"})
      if (node.has(name)) {
        const auto values = node.integers(name);
        if (values.size() != 2) return false;
        attributes[name] = std::vector<int64_t>{values[1], values[0]};
      }
    if (node.has("pads")) {
      const auto pads = node.integers("pads");
      if (pads.size() != 4) return false;
      attributes["pads"] = std::vector<int64_t>{pads[1], pads[0], pads[3], pads[2]};
    }
    std::vector<ir::ValueId> inputs = node.inputs;
    inputs[0] = turned(inputs[0]);
    if (weighted) inputs[1] = turned(inputs[1]);
    give(id, node, std::move(inputs), std::move(attributes));
    return true;
  }

  bool elementwise(ir::NodeId id, const ir::Node& node) {
    bool any = false;
    for (const ir::ValueId input : node.inputs) {
      if (input == ir::no_value) continue;
      if (graph_.value(input).is_constant()) continue;
      if (rank_of(graph_, input) != size_t{4}) return false;
      any |= turned_.count(input) > 0;
    }
    if (!any) return false;
    std::vector<ir::ValueId> inputs;
    for (const ir::ValueId input : node.inputs) inputs.push_back(input == ir::no_value ? input : turned(input));
    give(id, node, std::move(inputs), node.attributes);
    return true;
  }

  ir::Graph& graph_;
  std::map<ir::ValueId, ir::ValueId> turned_;  // [N, C, H, 1] to [N, C, 1, H]
};

}  // namespace

bool turn_columns(ir::Graph& graph) {
  Turner turner(graph);
  return each_node(graph, [&](ir::NodeId id) { return turner.visit(id); });
}

}  // namespace tenon::passes
