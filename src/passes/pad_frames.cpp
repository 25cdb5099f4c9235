// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr int64_t whole = 8;  // channels of 16 bits that are one vector

/// Weights [O, C, H, W] with so many channels of zeros behind C.
Tensor with_zeros(const Tensor& weights, int64_t zeros) {
  Dims dims = weights.dims();
  const int64_t own = dims[1] * dims[2] * dims[3], wide = own + zeros * dims[2] * dims[3];
  dims[1] += zeros;
  Tensor result(DType::f32, dims);
  std::fill_n(result.data<float>(), dims.elements(), 0.f);
  for (int64_t o = 0; o < dims[0]; ++o)
    std::copy_n(weights.data<float>() + o * own, own, result.data<float>() + o * wide);
  return result;
}

/// A convolution of what windows of frames see, which is no whole number of vectors: zeros make it one.
bool pad_at(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Conv" || node.text("layout", "") != "NHWC" || node.text("input_layout", "NHWC") != "NHWC" ||
      node.integer("group", 1) != 1)
    return false;
  const ir::Node *reshape = sole(graph, node.inputs[0], "Reshape"),
                 *frames = reshape ? sole(graph, reshape->inputs[0], "tenon:Frames") : nullptr;
  const Tensor* given = graph.constant(node.inputs[1]);
  if (!frames || !given || given->dtype() != DType::f32 || given->dims().rank() != 4) return false;
  const ir::Shape *seen = shape_of(graph, frames->outputs[0]), *read = shape_of(graph, node.inputs[0]);
  const Tensor weights = *given;
  const int64_t channels = weights.dims()[1], zeros = (whole - channels % whole) % whole;
  if (zeros == 0 || channels < whole || !seen || !read || seen->back() != channels || read->back() != channels ||
      frames->integer("along", 0) + 1 != static_cast<int64_t>(seen->size()) || frames->integer("zeros", 0) != 0)
    return false;
  ir::Shape from = *seen, to = *read;
  from.back() = to.back() = channels + zeros;
  const auto target = reshape_target(from, to);
  if (!target) return false;
  ir::Attributes attributes = frames->attributes;
  attributes["zeros"] = zeros;
  const std::string name = graph.value(node.inputs[0]).name;
  const std::vector<std::string> made = frames->origins, joined = reshape->origins;
  const ir::ValueId x = graph.apply("tenon:Frames", {frames->inputs[0]}, attributes, made, name + ".padded");
  std::vector<ir::ValueId> inputs = node.inputs;
  inputs[0] = graph.apply("Reshape", {x, constant(graph, name + ".sizes", *target)}, {}, joined, name);
  inputs[1] = graph.add_constant(graph.value(node.inputs[1]).name, with_zeros(weights, zeros));
  replace(graph, id, graph.apply("Conv", inputs, node.attributes, node.origins, graph.value(node.outputs[0]).name));
  return true;
}

}  // namespace

bool pad_frames(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return pad_at(graph, id); });
}

}  // namespace tenon::passes
