// SPDX-License-Identifier: Apache-2.0
#include "ops/conv_max_pool.h"
#include "passes/groups.h"

namespace tenon::passes::group_conv_max_pool {
namespace {

constexpr int64_t most_channels = 4;  // of an image

bool is_real(DType type) { return type == DType::f16 || type == DType::bf16 || type == DType::f32; }

/// Larger numbers stay the larger ones, so that the pool may come first.
bool is_monotone(const std::string& activation) {
  return activation.empty() || activation == "relu" || activation == "clip";
}

bool is_of_image(const ir::Graph& graph, const ir::Node& conv) {
  if (conv.op != "tenon:Int8Conv" && (conv.op != "Conv" || !is_real(graph.value(conv.outputs[0]).dtype))) return false;
  const Tensor* weights = graph.constant(conv.inputs[1]);
  return weights && weights->dims().rank() == 4 && weights->dims()[1] <= most_channels &&
         conv.integer("group", 1) == 1 && conv.text("layout", "") == "NHWC" && conv.text("residual", "").empty() &&
         is_monotone(conv.text("activation", ""));
}

/// Windows of three by three, at every second place, that begin at most one before the first.
bool is_usual_pool(const ir::Node& node) {
  using List = std::vector<int64_t>;
  const List pads = node.integers("pads", {0, 0, 0, 0});
  return node.op == "MaxPool" && node.outputs.size() == 1 && node.text("layout", "") == "NHWC" &&
         node.text("auto_pad", "NOTSET") == "NOTSET" && node.integers("kernel_shape") == List{3, 3} &&
         node.integers("strides") == List{2, 2} && node.integers("dilations", {1, 1}) == List{1, 1} &&
         pads.size() == 4 && pads[0] <= 1 && pads[1] <= 1;
}

/// A convolution of an image of few channels, and this max pool of its result.
std::optional<Group> conv_max_pool_at(const ir::Graph& graph, ir::NodeId id, const std::set<ir::NodeId>& taken) {
  const ir::Node& pool = graph.node(id);
  if (!is_usual_pool(pool)) return std::nullopt;
  const ir::NodeId maker = graph.value(pool.inputs[0]).producer;
  if (maker == ir::no_node || taken.count(maker) || graph.only_user(pool.inputs[0]) != id) return std::nullopt;
  const ir::Node& conv = graph.node(maker);
  if (!is_of_image(graph, conv)) return std::nullopt;
  const ir::OpId op = conv.op == "Conv" ? "tenon:ConvMaxPool" : "tenon:Int8ConvMaxPool";
  return Group{{maker, id}, op, conv.inputs, pool.outputs, ops::conv_max_pool_attributes(conv, pool)};
}

const GroupRegistrar registered("tenon:ConvMaxPool", conv_max_pool_at, 2);

}  // namespace
}  // namespace tenon::passes::group_conv_max_pool
