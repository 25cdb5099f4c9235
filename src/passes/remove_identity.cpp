// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

bool all(const std::optional<std::vector<int64_t>>& items, int64_t number) {
  return items && std::all_of(items->begin(), items->end(), [&](int64_t item) { return item == number; });
}

bool is_idle_dropout(const ir::Graph& graph, const ir::Node& node) {
  if (node.outputs.size() > 1 && node.outputs[1] != ir::no_value &&
      (!graph.value(node.outputs[1]).users.empty() || graph.is_output(node.outputs[1])))
    return false;
  return node.inputs.size() < 3 || node.inputs[2] == ir::no_value || scalar(graph, node.inputs[2]) == 0.0;
}

/// To the sizes there are, by no other scale and of no part.
bool is_idle_resize(const ir::Graph& graph, const ir::Node& node) {
  if (!same_shape(graph, node.inputs[0], node.outputs[0]) ||
      node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" ||
      node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return false;
  const auto given = [&](size_t at) {
    if (node.inputs.size() <= at || node.inputs[at] == ir::no_value) return false;
    const Tensor* constant = graph.constant(node.inputs[at]);
    return !constant || constant->elements() > 0;
  };
  if (!given(2)) return given(3);
  const Tensor* scales = graph.constant(node.inputs[2]);
  return scales && scales->dtype() == DType::f32 &&
         std::all_of(scales->data<float>(), scales->data<float>() + scales->elements(),
                     [](float scale) { return scale == 1; });
}

/// Of one pixel each, all of them.
bool is_idle_pool(const ir::Graph& graph, const ir::Node& node) {
  const bool is_of_one = all(node.integers("kernel_shape"), 1) && all(node.integers("pads", {0}), 0) &&
                         all(node.integers("strides", {1}), 1);
  return is_of_one && node.outputs.size() == 1 && same_shape(graph, node.inputs[0], node.outputs[0]);
}

bool is_idle(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.empty() || node.inputs[0] == ir::no_value) return false;
  const std::string& op = node.op;
  const ir::ValueId input = node.inputs[0], output = node.outputs[0];
  const DType dtype = graph.value(input).dtype;
  if (op == "Identity") return true;
  if (op == "Dropout") return is_idle_dropout(graph, node);
  if (op == "AveragePool" || op == "MaxPool") return is_idle_pool(graph, node);
  if (op == "Resize") return is_idle_resize(graph, node);
  if (op == "Cast") return dtype != DType::undefined && node.integer("to", 0) == static_cast<int64_t>(dtype);
  if (op == "Concat" || op == "Sum" || op == "Max" || op == "Min" || op == "Mean") return node.inputs.size() == 1;
  if (node.inputs.size() < 2 || output == ir::no_value) return false;
  if (op == "Pad") return all(integers(graph, node.inputs[1]), 0);
  if (op == "Tile") return all(integers(graph, node.inputs[1]), 1);
  if (op == "Expand" || op == "Slice") {
    if (!same_shape(graph, input, output)) return false;
    if (op == "Expand") return true;
    return node.inputs.size() < 5 || node.inputs[4] == ir::no_value || all(integers(graph, node.inputs[4]), 1);
  }
  if (!same_shape(graph, input, output) || !is_float(dtype)) return false;
  if (op == "Mul" || op == "Div" || op == "Pow") return scalar(graph, node.inputs[1]) == 1.0;
  if (op == "Add" || op == "Sub") return scalar(graph, node.inputs[1]) == 0.0;
  return false;
}

/// A Concat without the parts that hold no element.
bool drop_empty_parts(ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (node.op != "Concat") return false;
  const auto is_empty = [&](ir::ValueId part) {
    const ir::Shape* shape = shape_of(graph, part);
    return shape && std::any_of(shape->begin(), shape->end(), [](const ir::Dim& dim) { return dim == ir::Dim(0); });
  };
  std::vector<ir::ValueId> parts;
  std::copy_if(node.inputs.begin(), node.inputs.end(), std::back_inserter(parts),
               [&](ir::ValueId part) { return !is_empty(part); });
  if (parts.empty() || parts.size() == node.inputs.size()) return false;
  graph.set_inputs(id, parts);
  return true;
}

}  // namespace

bool remove_identity(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const bool dropped = drop_empty_parts(graph, id);
    if (!is_idle(graph, graph.node(id))) return dropped;
    replace(graph, id, graph.node(id).inputs[0]);
    return true;
  });
}

}  // namespace tenon::passes
