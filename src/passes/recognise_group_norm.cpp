// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// A number per group as one per channel; nullopt where it is no constant.
std::optional<std::vector<float>> for_channels(const ir::Graph& graph, ir::ValueId id, int64_t groups,
                                               int64_t channels) {
  const Tensor* tensor = graph.constant(id);
  if (!tensor || tensor->dtype() != DType::f32 || tensor->elements() != groups) return std::nullopt;
  std::vector<float> numbers;
  for (int64_t c = 0; c < channels; ++c) numbers.push_back(tensor->data<float>()[c / (channels / groups)]);
  return numbers;
}

/// An InstanceNormalization between reshapes that join the channels of each group and part them again. What scales and
/// shifts channels behind it is fold_scale's.
bool to_group_norm(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  const ir::Node* norm = node.op == "Reshape" ? sole(graph, node.inputs[0], "InstanceNormalization") : nullptr;
  const ir::Node* joins = norm ? made_by(graph, norm->inputs[0], "Reshape") : nullptr;
  if (!joins || !same_shape(graph, joins->inputs[0], node.outputs[0])) return false;
  const ir::Shape &x = *shape_of(graph, node.outputs[0]), *grouped = shape_of(graph, norm->inputs[0]);
  if (!grouped || x.size() < 2 || grouped->size() < 2 || !(x[0] == (*grouped)[0])) return false;
  if (!x[1].is_constant() || !(*grouped)[1].is_constant()) return false;
  const int64_t channels = x[1].value(), groups = (*grouped)[1].value();
  if (groups < 1 || channels % groups != 0) return false;
  const auto scale = for_channels(graph, norm->inputs[1], groups, channels);
  const auto bias = for_channels(graph, norm->inputs[2], groups, channels);
  if (!scale || !bias) return false;
  const std::string name = graph.value(node.outputs[0]).name;
  const ir::Attributes attributes{{"epsilon", norm->real("epsilon", 1e-5f)}, {"num_groups", groups}};
  const std::vector<std::string> origins = joined(joined(joins->origins, norm->origins), node.origins);
  const std::vector<ir::ValueId> inputs{joins->inputs[0], constant(graph, name + ".scale", {channels}, *scale),
                                        constant(graph, name + ".bias", {channels}, *bias)};
  replace(graph, id, graph.apply("GroupNormalization", inputs, attributes, origins, name));
  return true;
}

}  // namespace

bool recognise_group_norm(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_group_norm(graph, id); });
}

}  // namespace tenon::passes
