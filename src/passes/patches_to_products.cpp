// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/fake_quantize.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t least_depth = 2048;  // of a patch on a CPU: weights of fewer channels stay in a first cache
constexpr int64_t least_side = 8;  // of a patch; smaller ones have kernels that read the image as it lies

bool all(const std::vector<int64_t>& items, int64_t number) {
  return std::all_of(items.begin(), items.end(), [&](int64_t item) { return item == number; });
}

/// The constant that weights are, or are read from by DequantizeLinear with one scale or one for each result.
const Tensor* patch_weights(const ir::Graph& graph, ir::ValueId id) {
  if (const Tensor* given = graph.constant(id)) return given->dtype() == DType::f32 ? given : nullptr;
  const ir::Node* read = made_by(graph, id, "DequantizeLinear");
  const Tensor* scales = read ? graph.constant(read->inputs[1]) : nullptr;
  if (!scales || read->integer("block_size", 0) || (scales->elements() > 1 && read->integer("axis", 1) != 0))
    return nullptr;
  return graph.constant(read->inputs[0]);
}

/// Those weights in another shape with as many results.
ir::ValueId patch_weights_as(ir::Graph& graph, ir::ValueId id, const Dims& dims) {
  const std::string name = graph.value(id).name + ".rows";
  const ir::ValueId stored = graph.add_constant(name, patch_weights(graph, id)->reshaped(dims));
  if (graph.constant(id)) return stored;
  const ir::Node read = *made_by(graph, id, "DequantizeLinear");
  std::vector<ir::ValueId> inputs = read.inputs;
  inputs[0] = stored;
  const ir::ValueId weights = graph.apply(read.op, inputs, read.attributes, read.origins, name);
  graph.value(weights).dtype = DType::f32;
  return weights;
}

/// A convolution of an image in channels first whose windows are patches side by side: each becomes a pixel, whose
/// channels are its numbers in the order of the weights.
bool to_product(ir::Graph& graph, ir::NodeId id, int64_t least_depth) {
  const ir::Node node = graph.node(id);
  if (node.op != "Conv" || node.text("input_layout", "") != "NCHW" || node.integer("group", 1) != 1 ||
      node.text("auto_pad", "NOTSET") != "NOTSET" || !all(node.integers("pads"), 0) ||
      !all(node.integers("dilations"), 1))
    return false;
  const ir::Shape *from = shape_of(graph, node.inputs[0]), *to = shape_of(graph, node.outputs[0]);
  const Tensor* given = patch_weights(graph, node.inputs[1]);
  if (!from || from->size() != 4 || !to || !given || given->dims().rank() != 4) return false;
  const Dims weights = given->dims();
  const int64_t channels = weights[1], high = weights[2], wide = weights[3];
  const ir::Dim &height = (*from)[2], &width = (*from)[3];
  if (std::min(high, wide) < least_side || node.integers("strides") != std::vector<int64_t>{high, wide} ||
      !height.is_constant() || !width.is_constant() || height.value() % high || width.value() % wide)
    return false;
  const int64_t rows = height.value() / high, columns = width.value() / wide, depth = channels * high * wide;
  if (depth < least_depth) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::Dim batch = (*from)[0];
  const auto known = [&](ir::ValueId value, const ir::Shape& shape) {
    graph.value(value).dtype = DType::f32, graph.value(value).shape = shape;
    return value;
  };
  const auto sizes = [&](const std::vector<int64_t>& list) { return constant(graph, name + ".sizes", list); };
  const ir::Shape split{batch, channels, rows, high, columns, wide};
  ir::ValueId x = known(graph.apply("Reshape", {node.inputs[0], sizes({-1, channels, rows, high, columns, wide})}, {},
                                    node.origins, name + ".split"),
                        split);
  const Perm perm{0, 2, 4, 1, 3, 5};
  x = known(graph.apply("Transpose", {x}, {{"perm", perm}}, node.origins, name + ".patches"), permuted(split, perm));
  x = known(graph.apply("Reshape", {x, sizes({-1, rows, columns, depth})}, {}, node.origins, name + ".pixels"),
            {batch, rows, columns, depth});
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[0] = x;
  inputs[1] = patch_weights_as(graph, node.inputs[1], {weights[0], depth, 1, 1});
  ir::Attributes attributes = node.attributes;
  for (const char* own : {"input_layout", "kernel_shape", "strides"}) attributes.erase(own);
  replace(graph, id, graph.apply("Conv", inputs, attributes, node.origins, name));
  return true;
}

}  // namespace

bool patches_to_products(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_product(graph, id, 0); });
}
bool deep_patches_to_products(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_product(graph, id, least_depth); });
}

bool int16_patches_to_products(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    return node.op == "Conv" && steps_of(graph, node.inputs[0]) && to_product(graph, id, 0);
  });
}

}  // namespace tenon::passes
