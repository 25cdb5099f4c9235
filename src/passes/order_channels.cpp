// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// What a convolution makes, channels last, whose channels are split and turned, as by a pixel shuffle.
struct Shuffle {
  ir::NodeId conv, split, turn;
  Perm perm;     // of the turn
  size_t first;  // axis of the first part of the channels
};

std::optional<Shuffle> shuffle_at(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& conv = graph.node(id);
  if (conv.op != "Conv" || conv.text("layout", "") != "NHWC" || conv.integer("group", 1) != 1 || conv.has("residual") ||
      conv.inputs.size() > 3)
    return std::nullopt;
  for (size_t at = 1; at < conv.inputs.size(); ++at)
    if (const Tensor* list = graph.constant(conv.inputs[at]); !list || list->dtype() != DType::f32) return std::nullopt;
  const ir::NodeId split = graph.only_user(conv.outputs[0]);
  if (split == ir::no_node || graph.node(split).op != "Reshape" || graph.node(split).inputs[0] != conv.outputs[0])
    return std::nullopt;
  const ir::NodeId turn = graph.only_user(graph.node(split).outputs[0]);
  if (turn == ir::no_node || graph.node(turn).op != "Transpose") return std::nullopt;
  const ir::Shape *whole = shape_of(graph, conv.outputs[0]), *apart = shape_of(graph, graph.node(split).outputs[0]);
  const Perm perm = graph.node(turn).integers("perm");
  if (!whole || !apart || perm.size() != apart->size()) return std::nullopt;
  const std::vector<size_t> counts = split_counts(*whole, *apart);
  if (counts.size() != whole->size() || counts.back() < 2) return std::nullopt;
  return Shuffle{id, split, turn, perm, apart->size() - counts.back()};
}

/// Output channels of weights or of a bias, the k-th of which was at place `from[k]`.
Tensor picked(const Tensor& list, const std::vector<int64_t>& from) {
  Tensor result(DType::f32, list.dims());
  const int64_t own = list.elements() / static_cast<int64_t>(from.size());
  for (size_t at = 0; at < from.size(); ++at)
    std::copy_n(list.data<float>() + from[at] * own, own, result.data<float>() + static_cast<int64_t>(at) * own);
  return result;
}

/// Channels are made in the order in which the turn leaves their parts, so that it moves runs of them.
bool order_channels_at(ir::Graph& graph, ir::NodeId id) {
  const auto shuffle = shuffle_at(graph, id);
  if (!shuffle) return false;
  const ir::Shape apart = *shape_of(graph, graph.node(shuffle->split).outputs[0]);
  std::vector<size_t> order;  // parts of channels as the result has them, by their axis before
  for (const int64_t axis : shuffle->perm)
    if (static_cast<size_t>(axis) >= shuffle->first) order.push_back(static_cast<size_t>(axis));
  if (std::is_sorted(order.begin(), order.end())) return false;
  ir::Shape shape(apart.begin(), apart.begin() + static_cast<int64_t>(shuffle->first));
  Dims parts, strides;
  for (const size_t axis : order) {
    if (!apart[axis].is_constant()) return false;
    int64_t stride = 1;
    for (size_t behind = axis + 1; behind < apart.size(); ++behind) stride *= apart[behind].value();
    shape.push_back(apart[axis]), parts.push_back(apart[axis].value()), strides.push_back(stride);
  }
  std::vector<int64_t> from(static_cast<size_t>(parts.elements()), 0);
  for (size_t at = 0; at < from.size(); ++at)
    for (size_t part = parts.rank(), rest = at; part-- > 0; rest /= static_cast<size_t>(parts[part]))
      from[at] += static_cast<int64_t>(rest % static_cast<size_t>(parts[part])) * strides[part];
  const auto target = reshape_target(*shape_of(graph, graph.node(id).outputs[0]), shape);
  if (!target) return false;
  Perm perm = shuffle->perm;
  for (int64_t& axis : perm)
    if (const auto place = std::find(order.begin(), order.end(), static_cast<size_t>(axis)); place != order.end())
      axis = static_cast<int64_t>(shuffle->first) + (place - order.begin());
  const ir::Node conv = graph.node(id);
  for (size_t at = 1; at < conv.inputs.size(); ++at)
    graph.set_input(
        id, at, graph.add_constant(graph.value(conv.inputs[at]).name, picked(*graph.constant(conv.inputs[at]), from)));
  if (conv.has("slopes")) {
    const std::vector<float> given = conv.reals("slopes");
    std::vector<float> slopes;
    for (const int64_t at : from) slopes.push_back(given[static_cast<size_t>(at)]);
    graph.node(id).attributes["slopes"] = slopes;
  }
  const std::string name = graph.value(graph.node(shuffle->split).outputs[0]).name;
  graph.set_input(shuffle->split, 1, constant(graph, name + ".ordered", *target));
  graph.value(graph.node(shuffle->split).outputs[0]).shape = shape;
  graph.node(shuffle->turn).attributes["perm"] = perm;
  return true;
}

}  // namespace

bool order_channels(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return order_channels_at(graph, id); });
}

}  // namespace tenon::passes
