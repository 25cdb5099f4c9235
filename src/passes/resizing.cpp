// SPDX-License-Identifier: Apache-2.0
#include "passes/resizing.h"

#include "passes/size_lists.h"

namespace tenon::passes {
namespace {

std::optional<double> share_of(const ir::Graph& graph, const ir::Shape& in, const ir::Shape& out) {
  double share = 1;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (in[axis] == out[axis]) continue;
    const auto from = usual_size(graph, in[axis]), to = usual_size(graph, out[axis]);
    if (!from || !to || *from < 1 || *to < 1) return std::nullopt;
    share *= static_cast<double>(*from) / static_cast<double>(*to);
  }
  return share;
}

}  // namespace

std::optional<Resizing> resizing_of(const ir::Graph& graph, ir::ValueId value, Readers readers) {
  const ir::Node* node = readers == Readers::one ? sole(graph, value, "Resize") : made_by(graph, value, "Resize");
  if (!node || node->has("axes") || node->integer("antialias", 0) || graph.value(value).dtype != DType::f32)
    return std::nullopt;
  const std::string mode = node->text("mode", "nearest");
  if (mode != "nearest" && mode != "linear") return std::nullopt;
  if (node->text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" ||
      node->text("keep_aspect_ratio_policy", "stretch") != "stretch")
    return std::nullopt;
  const ir::Shape *in = shape_of(graph, node->inputs[0]), *out = shape_of(graph, value);
  const auto share = in && out && in->size() == out->size() ? share_of(graph, *in, *out) : std::nullopt;
  if (!share) return std::nullopt;
  const Tensor* scales = node->inputs.size() > 2 ? graph.constant(node->inputs[2]) : nullptr;
  const bool by_scales = scales && scales->elements() > 0;
  if (by_scales ? scales->dtype() != DType::f32 || scales->elements() != static_cast<int64_t>(in->size())
                : node->inputs.size() < 4 || node->inputs[3] == ir::no_value || !has_sizes(graph, *out))
    return std::nullopt;
  // What keeps its size is not moved by a fraction of an element either.
  for (size_t axis = 0; by_scales && axis < in->size(); ++axis)
    if ((*in)[axis] == (*out)[axis] && scales->data<float>()[axis] != 1) return std::nullopt;
  return Resizing{graph.value(value).producer, node->inputs[0], *in, *out, *share};
}

ir::ValueId resized(ir::Graph& graph, const Resizing& resizing, ir::ValueId from, const Perm& perm, const ir::Dim& last,
                    const std::vector<std::string>& origins) {
  const ir::Node node = graph.node(resizing.id);
  const std::string name = graph.value(node.outputs[0]).name;
  std::vector<ir::ValueId> inputs{from, ir::no_value};
  if (const Tensor* scales = node.inputs.size() > 2 ? graph.constant(node.inputs[2]) : nullptr;
      scales && scales->elements() > 0) {
    std::vector<float> moved;
    for (const int64_t axis : perm) moved.push_back(scales->data<float>()[axis]);
    const Dims dims{static_cast<int64_t>(moved.size())};
    inputs.push_back(constant(graph, name + ".scales", dims, moved));
  } else {
    ir::Shape moved = permuted(resizing.out, perm);
    moved.back() = last;
    inputs.push_back(ir::no_value);
    inputs.push_back(*size_list(graph, name + ".sizes", moved));
  }
  return graph.apply("Resize", inputs, node.attributes, joined(node.origins, origins), name);
}

}  // namespace tenon::passes
