// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// Weights [O, C, H, W] as [O, H * W * C, 1, 1].
Tensor by_taps(const Tensor& weights) {
  const Dims& dims = weights.dims();
  const int64_t channels = dims[1], taps = dims[2] * dims[3];
  Tensor result(DType::f32, {dims[0], taps * channels, 1, 1});
  for (int64_t o = 0; o < dims[0]; ++o)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t tap = 0; tap < taps; ++tap)
        result.data<float>()[(o * taps + tap) * channels + c] = weights.data<float>()[(o * channels + c) * taps + tap];
  return result;
}

/// What the taps of a deformable convolution read, then a convolution of single pixels.
bool lower(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "DeformConv" || node.integer("group", 1) != 1 || graph.value(node.outputs[0]).dtype != DType::f32)
    return false;
  const Tensor* constant = graph.constant(node.inputs[1]);
  const ir::Shape *x = shape_of(graph, node.inputs[0]), *offsets = shape_of(graph, node.inputs[2]),
                  *y = shape_of(graph, node.outputs[0]);
  if (!constant || constant->dtype() != DType::f32 || constant->dims().rank() != 4 || !x || !offsets || !y ||
      x->size() != 4 || offsets->size() != 4 || y->size() != 4)
    return false;
  // Sizes come of the offsets from here on, and what does not fit is told of the node as it was.
  if (!((*x)[1] == ir::Dim(constant->dims()[1])) || !((*offsets)[2] == (*y)[2]) || !((*offsets)[3] == (*y)[3]))
    return false;
  const Tensor weights = *constant;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto apply = [&](const ir::OpId& op, std::vector<ir::ValueId> inputs, ir::Attributes attributes) {
    return graph.apply(op, std::move(inputs), std::move(attributes), node.origins, name);
  };
  const auto last = [&](ir::ValueId value) { return apply("Transpose", {value}, {{"perm", Perm{0, 2, 3, 1}}}); };
  ir::Attributes window{{"kernel_shape", std::vector<int64_t>{weights.dims()[2], weights.dims()[3]}}};
  for (const char* attribute : {"strides", "dilations", "pads"})
    if (node.has(attribute)) window[attribute] = node.integers(attribute);
  window["offset_group"] = node.integer("offset_group", 1);
  std::vector<ir::ValueId> operands{last(node.inputs[0]), last(node.inputs[2])};
  if (node.inputs.size() > 4 && node.inputs[4] != ir::no_value) operands.push_back(last(node.inputs[4]));
  const ir::ValueId windows = apply("tenon:DeformWindows", operands, window);
  std::vector<ir::ValueId> inputs{apply("Transpose", {windows}, {{"perm", Perm{0, 3, 1, 2}}}),
                                  graph.add_constant(graph.value(node.inputs[1]).name, by_taps(weights))};
  if (node.inputs.size() > 3 && node.inputs[3] != ir::no_value) inputs.push_back(node.inputs[3]);
  replace(graph, id, apply("Conv", inputs, {{"kernel_shape", std::vector<int64_t>{1, 1}}}));
  return true;
}

}  // namespace

bool lower_deform(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return lower(graph, id); });
}

}  // namespace tenon::passes
