// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Windows along one axis.
struct Windows {
  int64_t kernel, places, stride, dilation;
};

/// Of a Gather by constant indices [kernel, places], tap * dilation + place * stride, that take all of the axis.
std::optional<Windows> windows_of(const ir::Graph& graph, const ir::Node& node, int64_t axis, int64_t rank) {
  const Tensor* tensor = graph.constant(node.inputs[1]);
  const ir::Shape* shape = shape_of(graph, node.inputs[0]);
  const auto indices = integers(graph, node.inputs[1]);
  if (!tensor || tensor->dims().rank() != 2 || tensor->elements() == 0 || !indices || !shape ||
      axis_of(node.integer("axis", 0), static_cast<size_t>(rank)) != static_cast<size_t>(axis) ||
      static_cast<int64_t>(shape->size()) != rank || !(*shape)[axis].is_constant())
    return std::nullopt;
  Windows windows{tensor->dims()[0], tensor->dims()[1], 0, 1};
  const int64_t size = (*shape)[axis].value();
  windows.stride = windows.places > 1 ? (*indices)[1] : size;
  if (windows.kernel > 1) windows.dilation = (*indices)[windows.places];
  if (windows.stride < 1 || windows.dilation < 1 || windows.stride > size || windows.dilation > size)
    return std::nullopt;
  for (int64_t at = 0; at < tensor->elements(); ++at)
    if ((*indices)[at] != at / windows.places * windows.dilation + at % windows.places * windows.stride)
      return std::nullopt;
  const int64_t room = size - (windows.kernel - 1) * windows.dilation - 1;
  if (room < 0 || room / windows.stride + 1 != windows.places) return std::nullopt;
  return windows;
}

/// Zeros that a Pad puts around an image; nullopt where it does something else.
std::optional<std::vector<int64_t>> pads_of(const ir::Graph& graph, const ir::Node& node, bool channels_last) {
  const auto pads = integers(graph, node.inputs[1]);
  const bool some = node.inputs.size() > 3 && node.inputs[3] != ir::no_value;
  const auto axes = some ? integers(graph, node.inputs[3]) : std::vector<int64_t>{0, 1, 2, 3};
  if (node.text("mode", "constant") != "constant" || !pads || !axes || pads->size() != 2 * axes->size())
    return std::nullopt;
  if (node.inputs.size() > 2 && node.inputs[2] != ir::no_value && scalar(graph, node.inputs[2]) != 0.0)
    return std::nullopt;
  std::vector<int64_t> around(4, 0);
  for (size_t at = 0; at < pads->size(); ++at) {
    if ((*pads)[at] == 0) continue;
    const auto axis = axis_of((*axes)[at % axes->size()], 4);
    const size_t first = channels_last ? 1 : 2;
    if (!axis || *axis < first || *axis > first + 1 || (*pads)[at] < 0) return std::nullopt;
    around[*axis - first + (at < axes->size() ? 0 : 2)] = (*pads)[at];
  }
  return around;
}

/// What two Gathers pick of an image, with the padding and the transpose in front of them.
struct Image {
  ir::ValueId value;
  bool channels_last = false;
  std::vector<int64_t> pads = {0, 0, 0, 0};
  std::vector<std::string> origins;

  Image(const ir::Graph& graph, ir::ValueId from) : value(from) {
    for (bool padded = false;;) {
      const ir::Node *transpose = made_by(graph, value, "Transpose"), *pad = made_by(graph, value, "Pad");
      if (transpose && !channels_last && transpose->integers("perm") == Perm{0, 3, 1, 2}) {
        channels_last = true;
        take(*transpose);
      } else if (const auto around = pad && !padded ? pads_of(graph, *pad, channels_last) : std::nullopt) {
        padded = true, pads = *around;
        take(*pad);
      } else {
        return;
      }
    }
  }
  void take(const ir::Node& node) { value = node.inputs[0], origins = joined(node.origins, origins); }
};

bool unfold(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Transpose" || node.integers("perm") != Perm{0, 1, 2, 4, 3, 5}) return false;
  const ir::Node* columns = sole(graph, node.inputs[0], "Gather");
  const ir::Node* rows = columns ? sole(graph, columns->inputs[0], "Gather") : nullptr;
  if (!rows) return false;
  const auto along = windows_of(graph, *columns, 4, 5), down = windows_of(graph, *rows, 2, 4);
  if (!along || !down) return false;
  const Image image(graph, rows->inputs[0]);
  const std::string name = graph.value(node.outputs[0]).name;
  const std::vector<std::string> origins =
      joined(image.origins, joined(rows->origins, joined(columns->origins, node.origins)));
  const ir::ValueId one = graph.apply("tenon:Unfold", {image.value},
                                      {{"layout", std::string(image.channels_last ? "NHWC" : "NCHW")},
                                       {"kernel_shape", std::vector<int64_t>{down->kernel, along->kernel}},
                                       {"strides", std::vector<int64_t>{down->stride, along->stride}},
                                       {"dilations", std::vector<int64_t>{down->dilation, along->dilation}},
                                       {"pads", image.pads}},
                                      origins, name);
  replace(graph, id, one);
  return true;
}

}  // namespace

bool unfold_gathers(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return unfold(graph, id); });
}

}  // namespace tenon::passes
