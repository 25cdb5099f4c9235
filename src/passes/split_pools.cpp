// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

using List = std::vector<int64_t>;

bool is_pool(const ir::Node& node) {
  return (node.op == "MaxPool" || node.op == "AveragePool") && node.outputs.size() == 1;
}

List window_of(const ir::Node& node) { return node.integers("kernel_shape"); }

size_t first_spatial(const ir::Node& node) { return node.text("layout", "") == "NHWC" ? 1 : 2; }

/// One window that holds the whole image is a global pool, which has the kernels of reductions.
bool to_global_pool(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  if (!from || !to || !is_float(graph.value(node.inputs[0]).dtype)) return false;
  const List window = window_of(node), pads = node.integers("pads", {0, 0, 0, 0});
  if (node.text("auto_pad", "NOTSET").starts_with("SAME") || node.integers("dilations", {1, 1}) != List{1, 1} ||
      std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; }))
    return false;
  for (size_t axis = 0; axis < 2; ++axis) {
    const size_t at = first_spatial(node) + axis;
    if (!((*from)[at] == ir::Dim(window[axis])) || !((*to)[at] == ir::Dim(1))) return false;
  }
  ir::Attributes attributes;
  if (node.has("layout")) attributes["layout"] = node.text("layout", "");
  replace(graph, id,
          graph.apply(node.op == "MaxPool" ? "GlobalMaxPool" : "GlobalAveragePool", {node.inputs[0]}, attributes,
                      node.origins, graph.value(node.outputs[0]).name));
  return true;
}

/// Whether max pools of several windows meet, which have a kernel together.
bool is_of_several(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "MaxPool") return false;
  if (made_by(graph, node.inputs[0], "MaxPool")) return true;
  size_t pools = 0;
  for (const ir::ValueId value : {node.inputs[0], node.outputs[0]})
    for (const ir::NodeId user : graph.value(value).users) pools += graph.node(user).op == "MaxPool";
  return pools > 1;
}

/// A large window is one over columns of what one over rows gives: what either leaves out or counts is a rectangle.
bool to_rows_and_columns(ir::Graph& graph, ir::NodeId id) {
  constexpr int64_t least_elements = 36;
  const ir::Node node = graph.node(id);
  const DType type = graph.value(node.inputs[0]).dtype;
  const List window = window_of(node);
  if (window[0] * window[1] < least_elements || std::min(window[0], window[1]) < 2 ||
      (!is_float(type) && !(type == DType::u8 && node.op == "MaxPool")) || is_of_several(graph, node))
    return false;
  const List pads = node.integers("pads", {0, 0, 0, 0});
  ir::ValueId value = node.inputs[0];
  for (const size_t axis : {size_t{1}, size_t{0}}) {
    const auto alone = [&](List list, int64_t other) {
      list[1 - axis] = other;
      return list;
    };
    ir::Attributes attributes = node.attributes;
    attributes["kernel_shape"] = alone(window, 1);
    for (const char* name : {"strides", "dilations"}) attributes[name] = alone(node.integers(name, {1, 1}), 1);
    if (node.has("pads")) {
      List own(4, 0);
      own[axis] = pads[axis], own[axis + 2] = pads[axis + 2];
      attributes["pads"] = own;
    }
    value = graph.apply(node.op, {value}, attributes, node.origins, graph.value(node.outputs[0]).name);
  }
  replace(graph, id, value);
  return true;
}

}  // namespace

bool split_pools(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    const ir::Shape* from = is_pool(node) ? shape_of(graph, node.inputs[0]) : nullptr;
    if (!from || from->size() != 4 || window_of(node).size() != 2) return false;
    return to_global_pool(graph, id) || to_rows_and_columns(graph, id);
  });
}

}  // namespace tenon::passes
