// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

/// The other operand of a node that is alone in using this result of another and takes one number; its kind is `op`.
struct Step {
  const ir::Node* node = nullptr;
  ir::ValueId from = ir::no_value;
  double number = 0;
};
std::optional<Step> step(const ir::Graph& graph, ir::ValueId value, const char* op, bool either_side) {
  const ir::Node* node = sole(graph, value, op);
  if (!node || node->inputs.size() != 2) return std::nullopt;
  for (size_t side : {1, 0})
    if (const auto number = scalar(graph, node->inputs[side]); number && (side == 1 || either_side))
      return Step{node, node->inputs[1 - side], *number};
  return std::nullopt;
}

/// Whether it is x * x or x to the power of two.
bool is_square(const ir::Graph& graph, const ir::Node* node, ir::ValueId x) {
  if (!node || node->inputs.size() != 2 || node->inputs[0] != x) return false;
  return node->op == "Mul" ? node->inputs[1] == x : node->op == "Pow" && scalar(graph, node->inputs[1]) == 2.0;
}

/// Whether these are the sizes of x with an axis of one in front of its channels, which `pool` takes for an image's
/// first axis.
bool has_channels_apart(const ir::Graph& graph, ir::ValueId apart, ir::ValueId x) {
  const ir::Shape *to = shape_of(graph, apart), *from = shape_of(graph, x);
  if (!to || !from || from->size() < 3) return false;
  ir::Shape expected = *from;
  expected.insert(expected.begin() + 1, ir::Dim(1));
  return *to == expected;
}

/// How many neighbouring channels a mean is of; 0 for other pools, and where channels are not in the middle.
int64_t channels_of(const ir::Node& pool) {
  const auto kernel = pool.integers("kernel_shape"), strides = pool.integers("strides"), pads = pool.integers("pads"),
             dilations = pool.integers("dilations");
  const size_t axes = kernel.size();
  if (axes < 2 || pads.size() != 2 * axes || pool.integer("count_include_pad", 0) == 0 ||
      pool.text("auto_pad", "NOTSET") != "NOTSET" || pool.integer("ceil_mode", 0) != 0)
    return 0;
  const auto are_one = [](const std::vector<int64_t>& list, size_t begin) {
    return std::all_of(list.begin() + static_cast<ptrdiff_t>(std::min(begin, list.size())), list.end(),
                       [](int64_t one) { return one == 1; });
  };
  std::vector<int64_t> expected(2 * axes, 0);
  expected[0] = expected[axes] = kernel[0] / 2;
  return are_one(kernel, 1) && are_one(strides, 0) && are_one(dilations, 0) && kernel[0] % 2 == 1 && pads == expected
             ? kernel[0]
             : 0;
}

/// x / (bias + alpha * mean of neighbouring channels' squares) ^ beta.
bool to_lrn(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "Div" || !same_shape(graph, node.inputs[0], node.outputs[0])) return false;
  const ir::ValueId x = node.inputs[0];
  const auto power = step(graph, node.inputs[1], "Pow", false);
  const auto sum = power ? step(graph, power->from, "Add", true) : std::nullopt;
  const auto scale = sum ? step(graph, sum->from, "Mul", true) : std::nullopt;
  const ir::Node* joined_again = scale ? sole(graph, scale->from, "Reshape") : nullptr;
  const ir::Node* pool = joined_again ? sole(graph, joined_again->inputs[0], "AveragePool") : nullptr;
  const ir::Node* apart = pool ? sole(graph, pool->inputs[0], "Reshape") : nullptr;
  const ir::Node* square = apart ? graph.producer(apart->inputs[0]) : nullptr;
  const int64_t size = square ? channels_of(*pool) : 0;
  if (size == 0 || !is_square(graph, square, x) || !has_channels_apart(graph, pool->inputs[0], x) ||
      !same_shape(graph, joined_again->outputs[0], x))
    return false;
  std::vector<std::string> origins = square->origins;
  for (const ir::Node* one : {apart, pool, joined_again, scale->node, sum->node, power->node})
    origins = joined(origins, one->origins);
  const ir::Attributes attributes{{"size", size},
                                  {"alpha", static_cast<float>(scale->number)},
                                  {"beta", static_cast<float>(power->number)},
                                  {"bias", static_cast<float>(sum->number)}};
  replace(graph, id,
          graph.apply("LRN", {x}, attributes, joined(origins, node.origins), graph.value(node.outputs[0]).name));
  return true;
}

}  // namespace

bool recognise_lrn(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return to_lrn(graph, id); });
}

}  // namespace tenon::passes
