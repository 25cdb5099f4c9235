// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

std::vector<int64_t> three(const ir::Node& node, const char* name, int64_t otherwise, size_t count = 3) {
  return node.integers(name, std::vector<int64_t>(count, otherwise));
}

/// Weights [O, C, D, H, W] as [O, D * C, H, W].
Tensor frames_as_channels(const Tensor& weights) {
  const Dims& d = weights.dims();
  const int64_t out = d[0], channels = d[1], depth = d[2], plane = d[3] * d[4];
  Tensor result(DType::f32, {out, depth * channels, d[3], d[4]});
  const auto* from = weights.data<float>();
  auto* to = result.data<float>();
  for (int64_t o = 0; o < out; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t k = 0; k < depth; ++k)
        std::copy_n(from + ((o * channels + c) * depth + k) * plane, plane,
                    to + ((o * depth + k) * channels + c) * plane);
  return result;
}

/// The frames that one output frame sees become channels, and the output frames the batch of a convolution over height
/// and width.
bool lower_conv3d_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Conv" || node.inputs.size() > 3 || node.integer("group", 1) != 1 ||
      node.text("auto_pad", "NOTSET") != "NOTSET")
    return false;
  const ir::Shape *x = shape_of(graph, node.inputs[0]), *y = shape_of(graph, node.outputs[0]);
  if (!x || !y || x->size() != 5 || y->size() != 5 || !graph.constant(node.inputs[1])) return false;
  const Tensor weights = *graph.constant(node.inputs[1]);
  if (weights.dtype() != DType::f32) return false;
  for (size_t axis = 1; axis < 5; ++axis)
    if (!(*x)[axis].is_constant() || !(*y)[axis].is_constant()) return false;
  const auto strides = three(node, "strides", 1), dilations = three(node, "dilations", 1),
             pads = three(node, "pads", 0, 6);
  if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; })) return false;
  const ir::Dim batch = (*x)[0];
  const int64_t channels = (*x)[1].value(), height = (*x)[3].value(), width = (*x)[4].value(),
                depth = weights.dims()[2];
  const int64_t frames = (*y)[2].value(), outputs = (*y)[1].value(), out_height = (*y)[3].value(),
                out_width = (*y)[4].value();
  const std::string name = graph.value(node.outputs[0]).name;
  const auto numbers = [&](std::vector<int64_t> values) { return constant(graph, name + ".sizes", values); };

  // [N, C, D, H, W] to [N, D, C, H, W], padded in D: by frames of zeros, between which what makes the others may write
  // them.
  ir::ValueId value =
      graph.apply("Transpose", {node.inputs[0]}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}}, node.origins, name);
  if ((pads[0] || pads[3]) && batch.is_constant()) {
    const auto zeros = [&](int64_t count) {
      const Dims dims{batch.value(), count, channels, height, width};
      return constant(graph, name + ".zeros", dims, std::vector<float>(static_cast<size_t>(dims.elements()), 0.f));
    };
    const ir::ValueId first = pads[0] ? zeros(pads[0]) : ir::no_value;
    std::vector<ir::ValueId> frames_around;
    if (pads[0]) frames_around.push_back(first);
    frames_around.push_back(value);
    if (pads[3]) frames_around.push_back(pads[3] == pads[0] ? first : zeros(pads[3]));
    value = graph.apply("Concat", frames_around, {{"axis", int64_t{1}}}, node.origins, name);
  } else if (pads[0] || pads[3]) {
    value = graph.apply("Pad", {value, numbers({0, pads[0], 0, 0, 0, 0, pads[3], 0, 0, 0})}, {{"mode", "constant"}},
                        node.origins, name);
  }
  std::vector<ir::ValueId> seen;
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t begin = k * dilations[0], end = begin + (frames - 1) * strides[0] + 1;
    seen.push_back(graph.apply("Slice", {value, numbers({begin}), numbers({end}), numbers({1}), numbers({strides[0]})},
                               {}, node.origins, name));
  }
  value = depth == 1 ? seen[0] : graph.apply("Concat", seen, {{"axis", int64_t{2}}}, node.origins, name);
  value = graph.apply("Reshape", {value, numbers({-1, depth * channels, height, width})}, {}, node.origins, name);
  std::vector<ir::ValueId> inputs = {value,
                                     graph.add_constant(graph.value(node.inputs[1]).name, frames_as_channels(weights))};
  if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
  value = graph.apply("Conv", inputs,
                      {{"kernel_shape", std::vector<int64_t>{weights.dims()[3], weights.dims()[4]}},
                       {"strides", std::vector<int64_t>{strides[1], strides[2]}},
                       {"dilations", std::vector<int64_t>{dilations[1], dilations[2]}},
                       {"pads", std::vector<int64_t>{pads[1], pads[2], pads[4], pads[5]}},
                       {"group", int64_t{1}}},
                      node.origins, name);
  value =
      graph.apply("Reshape", {value, numbers({-1, frames, outputs, out_height, out_width})}, {}, node.origins, name);
  replace(graph, id,
          graph.apply("Transpose", {value}, {{"perm", std::vector<int64_t>{0, 2, 1, 3, 4}}}, node.origins, name));
  return true;
}

}  // namespace

bool lower_conv3d(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return lower_conv3d_at(graph, id); });
}

}  // namespace tenon::passes
