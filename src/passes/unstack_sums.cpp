// SPDX-License-Identifier: Apache-2.0
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

constexpr size_t most_parts = 4;

/// What was stacked along an axis, one behind the other; empty where a value is no such stack.
std::vector<ir::ValueId> stacked(const ir::Graph& graph, ir::ValueId value, size_t axis) {
  const ir::Node* node = made_by(graph, value, "Concat");
  const auto rank = rank_of(graph, value);
  if (!node || !rank || axis_of(node->integer("axis", 0), *rank) != axis) return {};
  if (node->inputs.size() < 2 || node->inputs.size() > most_parts) return {};
  for (const ir::ValueId input : node->inputs) {
    const ir::Shape* shape = shape_of(graph, input);
    if (!shape || shape->size() != *rank || !((*shape)[axis] == ir::Dim(1))) return {};
  }
  return node->inputs;
}

/// A sum over the axis along which tensors were stacked, maybe times others, is a sum of tensors.
bool unstack(ir::Graph& graph, ir::NodeId id) {
  const ir::Node node = graph.node(id);
  if (node.op != "ReduceSum" || node.inputs.size() < 2) return false;
  const auto axes = integers(graph, node.inputs[1]);
  const auto rank = rank_of(graph, node.inputs[0]);
  const ir::Shape* to = shape_of(graph, node.outputs[0]);
  const auto axis = axes && axes->size() == 1 && rank ? axis_of(axes->front(), *rank) : std::nullopt;
  if (!axis || !to) return false;
  const ir::Shape result = *to;
  const std::string name = graph.value(node.outputs[0]).name;

  const ir::Node* product = sole(graph, node.inputs[0], "Mul");
  std::vector<ir::ValueId> parts = stacked(graph, node.inputs[0], *axis);
  ir::ValueId factors = ir::no_value;
  for (size_t side = 0; product && parts.empty() && side < 2; ++side) {
    parts = stacked(graph, product->inputs[side], *axis);
    factors = product->inputs[1 - side];
  }
  if (parts.empty()) return false;
  const auto origins = product ? joined(product->origins, node.origins) : node.origins;
  const ir::Shape* of_factors = factors == ir::no_value ? nullptr : shape_of(graph, factors);
  if (factors != ir::no_value && (!of_factors || of_factors->size() != *rank)) return false;
  const bool each = of_factors && (*of_factors)[*axis] == ir::Dim(static_cast<int64_t>(parts.size()));
  if (of_factors && !each && !((*of_factors)[*axis] == ir::Dim(1))) return false;

  // Without the axis where the sum has none.
  const auto placed = [&](ir::ValueId value, const std::string& suffix) -> std::optional<ir::ValueId> {
    if (result.size() == *rank) return value;
    const ir::Shape from = *shape_of(graph, value);
    ir::Shape less = from;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(*axis));
    const auto target = reshape_target(from, less);
    if (!target) return std::nullopt;
    const ir::ValueId made =
        graph.apply("Reshape", {value, constant(graph, name + suffix + ".sizes", *target)}, {}, origins, name + suffix);
    graph.value(made).dtype = graph.value(value).dtype, graph.value(made).shape = less;
    return made;
  };
  const auto apply = [&](const char* op, const std::vector<ir::ValueId>& inputs) {
    const ir::ValueId made = graph.apply(op, inputs, {}, origins, name);
    graph.value(made).dtype = graph.value(inputs[0]).dtype, graph.value(made).shape = result;
    return made;
  };
  ir::ValueId sum = ir::no_value;
  for (size_t at = 0; at < parts.size(); ++at) {
    const std::string suffix = "." + std::to_string(at);
    auto part = placed(parts[at], suffix);
    if (part && factors != ir::no_value) {
      ir::ValueId factor = factors;
      if (each) {
        const auto first = static_cast<int64_t>(at);
        const auto number = [&](const char* what, int64_t value) {
          return constant(graph, name + suffix + what, {value});
        };
        factor = graph.apply("Slice",
                             {factors, number(".first", first), number(".last", first + 1),
                              number(".axis", static_cast<int64_t>(*axis))},
                             {}, origins, name + suffix + ".factor");
        graph.value(factor).dtype = graph.value(factors).dtype;
        graph.value(factor).shape = *shape_of(graph, factors);
        (*graph.value(factor).shape)[*axis] = ir::Dim(1);
      }
      const auto turned = placed(factor, suffix + ".factor");
      if (!turned) return false;
      part = apply("Mul", {*part, *turned});
    }
    if (!part) return false;
    sum = sum == ir::no_value ? *part : apply("Add", {sum, *part});
  }
  replace(graph, id, sum);
  return true;
}

}  // namespace

bool unstack_sums(ir::Graph& graph) {
  return each_node(graph, [&](ir::NodeId id) { return unstack(graph, id); });
}

}  // namespace tenon::passes
