// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Zero padding of spatial axes only, as ONNX's pads attribute of a window (all begins, then all ends).
std::optional<std::vector<int64_t>> spatial_zeros(const ir::Graph& graph, const ir::Node& pad) {
  if (pad.text("mode", "constant") != "constant" || graph.value(pad.inputs[0]).dtype != DType::f32) return std::nullopt;
  const auto rank = rank_of(graph, pad.inputs[0]);
  const auto given = integers(graph, pad.inputs[1]);
  if (!rank || *rank < 3 || !given) return std::nullopt;
  if (pad.inputs.size() > 2 && pad.inputs[2] != ir::no_value && scalar(graph, pad.inputs[2]) != 0.0)
    return std::nullopt;
  std::vector<int64_t> full(2 * *rank, 0);
  std::vector<int64_t> axes;
  if (pad.inputs.size() > 3 && pad.inputs[3] != ir::no_value) {
    const auto listed = integers(graph, pad.inputs[3]);
    if (!listed) return std::nullopt;
    axes = *listed;
  } else {
    for (size_t at = 0; at < *rank; ++at) axes.push_back(static_cast<int64_t>(at));
  }
  if (given->size() != 2 * axes.size()) return std::nullopt;
  for (size_t at = 0; at < axes.size(); ++at) {
    const auto axis = axis_of(axes[at], *rank);
    if (!axis) return std::nullopt;
    full[*axis] = (*given)[at];
    full[*axis + *rank] = (*given)[at + axes.size()];
  }
  if (std::any_of(full.begin(), full.end(), [](int64_t size) { return size < 0; })) return std::nullopt;
  if (full[0] || full[1] || full[*rank] || full[*rank + 1]) return std::nullopt;
  std::vector<int64_t> result(full.begin() + 2, full.begin() + static_cast<int64_t>(*rank));
  result.insert(result.end(), full.begin() + static_cast<int64_t>(*rank) + 2, full.end());
  return result;
}

bool takes_padding(const ir::Node& node, const std::vector<int64_t>& own) {
  if (node.text("auto_pad", "NOTSET") != "NOTSET") return false;
  if (node.op == "Conv") return true;
  // An average counts the padded zeros, so the pool must count all of its padding.
  const bool bare = std::all_of(own.begin(), own.end(), [](int64_t size) { return size == 0; });
  return node.op == "AveragePool" && node.integer("ceil_mode", 0) == 0 &&
         (bare || node.integer("count_include_pad", 0) == 1);
}

}  // namespace

bool fold_pad(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    if (node.op != "Conv" && node.op != "AveragePool") return false;
    const ir::Node* pad = sole(graph, node.inputs[0], "Pad");
    if (!pad) return false;
    const auto zeros = spatial_zeros(graph, *pad);
    if (!zeros) return false;
    std::vector<int64_t> pads = node.integers("pads", std::vector<int64_t>(zeros->size(), 0));
    if (pads.size() != zeros->size() || !takes_padding(node, pads)) return false;
    if (node.op == "AveragePool") {
      // A pool refuses padding that reaches a whole window.
      const auto kernel = node.integers("kernel_shape");
      if (kernel.size() * 2 != pads.size()) return false;
      for (size_t at = 0; at < pads.size(); ++at)
        if (pads[at] + (*zeros)[at] >= kernel[at % kernel.size()]) return false;
    }
    for (size_t at = 0; at < pads.size(); ++at) pads[at] += (*zeros)[at];
    const ir::ValueId input = pad->inputs[0];
    ir::Node& changed = graph.node(id);
    changed.origins = joined(changed.origins, pad->origins);
    changed.attributes["pads"] = pads;
    if (changed.op == "AveragePool") changed.attributes["count_include_pad"] = int64_t{1};
    graph.set_input(id, 0, input);
    return true;
  });
}

}  // namespace tenon::passes
